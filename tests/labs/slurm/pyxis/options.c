/* The options of Pyxis: their names, their checks, and what they were given. */
#include "pyxis.h"

#include <string.h>

const char *const value_name[VALUES] = {"image", "mounts", "workdir", "name", "save", "env"};
const char *value[VALUES];
int flag[FLAGS] = {-1, -1, -1, -1, -1};
const char *registry = "/", *state = "/";

static int check_mount(const char *mount)
{
	char *rest = text("%s", mount), *source = strsep(&rest, ":"), *target = rest ? strsep(&rest, ":") : source;

	if (!*source || !*target)
		return FAIL("--container-mounts: invalid format: %s", mount);
	if (*source != '/' && *source != '.' && strcmp(source, "tmpfs"))
		return FAIL("mount source must be a relative path, an absolute path, \"tmpfs\" or \"umount\"");
	if (*target != '/' && *target != '.')
		return FAIL("mount target must be a relative path or an absolute path");
	return 0;
}

static int check_mounts(const char *mounts)
{
	char *rest = text("%s", mounts), *mount;

	while ((mount = strsep(&rest, ",")))
		if (check_mount(mount))
			return -1;
	return 0;
}

/* Slurm calls this more than once with the same words. */
static int take_value(int which, const char *words, int remote)
{
	(void)remote;
	if (!words || !*words)
		return FAIL("--container-%s: argument required", value_name[which]);
	if (value[which] && strcmp(value[which], words))
		return FAIL("--container-%s specified multiple times", value_name[which]);
	if (which == SAVE)
		return FAIL("--container-save: this stand-in for Pyxis cannot save a container");
	if (which == NAME && strchr(words, '/'))
		return FAIL("--container-name: invalid name: %s", words);
	if (which == MOUNTS && check_mounts(words))
		return -1;
	value[which] = text("%s", words);
	return 0;
}

/* The number of a flag is twice its place, plus one where it is switched on. */
static int take_flag(int number, const char *unused, int remote)
{
	(void)unused, (void)remote;
	if (flag[number / 2] == !(number % 2))
		return FAIL("an option and its opposite were both specified");
	flag[number / 2] = number % 2;
	return 0;
}

#define ON(which) 0, 2 * (which) + 1, take_flag
#define OFF(which) 0, 2 * (which), take_flag
static struct spank_option options[] = {
	{"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] image", 1, IMAGE, take_value},
	{"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "[pyxis] bind mounts", 1, MOUNTS, take_value},
	{"container-workdir", "PATH", "[pyxis] working directory", 1, WORKDIR, take_value},
	{"container-name", "NAME", "[pyxis] name to keep the container under", 1, NAME, take_value},
	{"container-save", "PATH", "[pyxis] save the container (refused here)", 1, SAVE, take_value},
	{"container-env", "NAME[,NAME...]", "[pyxis] variables that win over the image's", 1, ENV, take_value},
	{"container-mount-home", NULL, "[pyxis] mount the home", ON(HOME)},
	{"no-container-mount-home", NULL, "[pyxis] do not mount the home", OFF(HOME)},
	{"container-remap-root", NULL, "[pyxis] be root", ON(REMAP)},
	{"no-container-remap-root", NULL, "[pyxis] do not be root", OFF(REMAP)},
	{"container-entrypoint", NULL, "[pyxis] run the entrypoint (no effect here)", ON(ENTRYPOINT)},
	{"no-container-entrypoint", NULL, "[pyxis] do not run the entrypoint", OFF(ENTRYPOINT)},
	{"container-entrypoint-log", NULL, "[pyxis] show the entrypoint's output (no effect here)", ON(LOG)},
	{"container-writable", NULL, "[pyxis] writable root", ON(WRITABLE)},
	{"container-readonly", NULL, "[pyxis] read-only root", OFF(WRITABLE)},
	SPANK_OPTIONS_TABLE_END,
};

int register_options(spank_t spank, int count, char **words)
{
	spank_context_t where = spank_context();

	for (int i = 0; i < count; i++) {
		if (!strncmp(words[i], "registry=", 9))
			registry = text("%s", words[i] + 9);
		if (!strncmp(words[i], "state=", 6))
			state = text("%s", words[i] + 6);
	}
	if (where != S_CTX_LOCAL && where != S_CTX_ALLOCATOR && where != S_CTX_REMOTE)
		return 0;
	for (struct spank_option *option = options; option->name; option++)
		if (spank_option_register(spank, option) != ESPANK_SUCCESS)
			return FAIL("couldn't register --%s", option->name);
	return 0;
}

/* PYXIS_CONTAINER_IMAGE and the like stand in for options that were not given. */
int options_from_environment(spank_t spank)
{
	static const char *const variable[VALUES] = {"IMAGE", "MOUNTS", "WORKDIR", "NAME", "SAVE", "ENV"};
	char words[16384];

	for (int i = 0; i < VALUES; i++)
		if (!value[i] &&
		    !spank_getenv(spank, text("PYXIS_CONTAINER_%s", variable[i]), words, sizeof(words)) &&
		    take_value(i, words, 1))
			return -1;
	return 0;
}
