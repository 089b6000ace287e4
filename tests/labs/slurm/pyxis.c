/*
 * A stand-in for Pyxis: takes its options, checks them as it does, and runs each task in a root file system of its own.
 *
 * Names, checks and messages follow what Pyxis and enroot document and print; nothing of their code is in here. Unlike
 * the real one: an image is a folder made by images.py; each task has a container to itself, where Pyxis gives all tasks
 * of a node the same; there is no user namespace and no entrypoint; --container-save is refused.
 *
 *   required pyxis.so registry=FOLDER state=FOLDER
 *     registry: images that are not paths, as folders whose name has + for / and #
 *     state: file systems of named containers (state/NODE/NAME); state/mount is where containers are put together
 *
 * Memory is not given back: these are short-lived processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(pyxis, 1)

enum { IMAGE, MOUNTS, WORKDIR, NAME, SAVE, ENV, VALUES };
enum { HOME, REMAP, ENTRYPOINT, LOG, WRITABLE, FLAGS };

static const char *const value_name[VALUES] = {"image", "mounts", "workdir", "name", "save", "env"};
static const char *value[VALUES];
static int flag[FLAGS] = {-1, -1, -1, -1, -1};
static const char *registry = "/", *state = "/";

#define FAIL(...) (slurm_error("pyxis: " __VA_ARGS__), -1)
#define NOTHING(...) (slurm_error("pyxis: " __VA_ARGS__), NULL)

static char *text(const char *format, ...)
{
	char *made;
	va_list words;

	va_start(words, format);
	if (vasprintf(&made, format, words) < 0)
		abort();
	va_end(words);
	return made;
}

static int has_word(const char *list, const char *word, const char *separators)
{
	char *rest = text("%s", list ? list : ""), *item;
	int found = 0;

	while ((item = strsep(&rest, separators)))
		found |= !strcmp(item, word);
	return found;
}

static int exists(const char *path)
{
	return !access(path, F_OK);
}

static void make_parents(const char *path)
{
	char *copy = text("%s", path);

	for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(copy, 0755);
		*at = '/';
	}
}

static int make_folder(const char *path)
{
	make_parents(path);
	return mkdir(path, 0755) && errno != EEXIST ? FAIL("couldn't make %s: %m", path) : 0;
}

/* ---- options ---- */

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
	{"container-remap-root", NULL, "[pyxis] be root (no effect here)", ON(REMAP)},
	{"no-container-remap-root", NULL, "[pyxis] do not be root (no effect here)", OFF(REMAP)},
	{"container-entrypoint", NULL, "[pyxis] run the entrypoint (no effect here)", ON(ENTRYPOINT)},
	{"no-container-entrypoint", NULL, "[pyxis] do not run the entrypoint", OFF(ENTRYPOINT)},
	{"container-entrypoint-log", NULL, "[pyxis] show the entrypoint's output (no effect here)", ON(LOG)},
	{"container-writable", NULL, "[pyxis] writable root", ON(WRITABLE)},
	{"container-readonly", NULL, "[pyxis] read-only root", OFF(WRITABLE)},
	SPANK_OPTIONS_TABLE_END,
};

int slurm_spank_init(spank_t spank, int count, char **words)
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
static int options_from_environment(spank_t spank)
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

/* ---- the image ---- */

/* What enroot's log would hold, between the lines that Pyxis prints around it. */
static int enroot_failed(const char *first, const char *what, const char *line)
{
	slurm_error("pyxis: %s failed with error code: 1", first);
	if (*what)
		slurm_error("pyxis: %s", what);
	slurm_error("pyxis: printing enroot log file:");
	slurm_error("pyxis:     %s", line);
	return FAIL("couldn't start container");
}

static char *find_image(void)
{
	const char *wanted = value[IMAGE];
	char *name = text("%s", wanted);

	if (*wanted == '/' || *wanted == '.') {
		if (exists(text("%s/environment", wanted)))
			return realpath(name, NULL);
		enroot_failed("child 1", "failed to create container filesystem",
			      text("[ERROR] No such file or directory: %s", wanted));
		return NULL;
	}
	for (char *at = name; *at; at++)
		if (*at == '/' || *at == '#')
			*at = '+';
	name = text("%s/%s", registry, name);
	if (exists(name))
		return name;
	enroot_failed("child 1", "failed to import docker image",
		      text("[ERROR] URL https://%s returned error code: 404 Not Found", wanted));
	return NULL;
}

/* The image of a named container is kept in its folder, as a link. */
static char *image_of(const char *scratch, int known)
{
	char *link = text("%s/image", scratch), *image;

	if (known && (image = realpath(link, NULL)))
		return image;
	if (!value[IMAGE])
		return NOTHING("error: a container with name \"pyxis_%s\" does not exist, and --container-image is "
			       "not set", value[NAME]);
	image = find_image();
	if (image && value[NAME] && symlink(image, link))
		return NOTHING("couldn't keep %s: %m", link);
	return image;
}

static void set_environment(spank_t spank, const char *image)
{
	FILE *lines = fopen(text("%s/environment", image), "re");
	char *line = NULL, *words;
	size_t size = 0;

	while (lines && getline(&line, &size, lines) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if ((words = strchr(line, '='))) {
			*words++ = '\0';
			spank_setenv(spank, line, words, !has_word(value[ENV], line, ","));
		}
	}
}

/* ---- the container ---- */

/* Where the writable layers lie: in memory, or on disk for a container with a name. */
static char *make_scratch(void)
{
	char *mountpoint = text("%s/mount", state), node[65], *scratch;

	if (make_folder(mountpoint) || mount("tmpfs", mountpoint, "tmpfs", 0, NULL))
		return NOTHING("couldn't mount %s: %m", mountpoint);
	if (!value[NAME])
		return mountpoint;
	gethostname(node, sizeof(node));
	scratch = text("%s/%s/%.*s", state, node, (int)strcspn(value[NAME], ":"), value[NAME]);
	make_parents(scratch);
	return scratch;
}

/* Puts a writable layer over a part of the image and, but for its root, this machine's own. */
static int lay(const char *image, const char *part, const char *own, const char *scratch, const char *target)
{
	char *upper = text("%s/upper/%s", scratch, part), *work = text("%s/work/%s", scratch, part);
	char *layers = text("lowerdir=%s/%s%s,upperdir=%s,workdir=%s", image, part, own, upper, work);

	if (make_folder(upper) || make_folder(work) || make_folder(target))
		return -1;
	return mount("overlay", target, "overlay", 0, layers) ? FAIL("overlay %s: %m", layers) : 0;
}

static int bind_to(const char *source, const char *root, const char *target, int readonly)
{
	char *place = text("%s/%s", root, target);
	struct stat status;

	if (!strcmp(source, "tmpfs"))
		return make_folder(place) || mount("tmpfs", place, "tmpfs", 0, NULL) ? FAIL("tmpfs: %m") : 0;
	make_parents(place);
	if (!stat(source, &status)) {
		if (S_ISDIR(status.st_mode))
			mkdir(place, 0755);
		else
			close(open(place, O_CREAT | O_WRONLY, 0644));
	}
	if (mount(source, place, NULL, MS_BIND | MS_REC, NULL) ||
	    (readonly && mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL)))
		return enroot_failed("container start", "",
				     text("enroot-mount: failed to mount: %s at %s: %m", source, place));
	return 0;
}

static int bind_all(const char *root)
{
	char *rest = value[MOUNTS] ? text("%s", value[MOUNTS]) : NULL, *item;

	while ((item = strsep(&rest, ","))) {
		char *source = strsep(&item, ":"), *target = item ? strsep(&item, ":") : source;

		/* enroot writes mounts into an fstab: what follows a space is another column (issue 133 of Pyxis). */
		if (bind_to(text("%.*s", (int)strcspn(source, " "), source), root, target, has_word(item, "ro", "+")))
			return -1;
	}
	return 0;
}

static int bind_home(spank_t spank, const char *root)
{
	uid_t user;
	struct passwd *known;

	if (flag[HOME] != 1 || spank_get_item(spank, S_JOB_UID, &user) || !(known = getpwuid(user)))
		return 0;
	return bind_to(known->pw_dir, root, known->pw_dir, 0);
}

/* The script of a batch step lies in slurmd's spool folder. */
static int bind_script(spank_t spank, const char *root)
{
	uint32_t step;
	int count;
	char **words, *folder;

	if (spank_get_item(spank, S_JOB_STEPID, &step) || step != SLURM_BATCH_SCRIPT ||
	    spank_get_item(spank, S_JOB_ARGV, &count, &words) || !count || !strrchr(words[0], '/'))
		return 0;
	folder = text("%.*s", (int)(strrchr(words[0], '/') - words[0]), words[0]);
	return bind_to(folder, root, folder, 1);
}

static int put_together(spank_t spank, const char *image, const char *scratch, const char *root)
{
	static const char *const given[] = {"/proc", "/sys", "/dev", "/etc/hosts", "/etc/passwd", "/etc/group", NULL};
	static const char *const parts[] = {"/usr", "/etc", "", NULL};

	if (lay(image, "root", "", scratch, root) || lay(image, "usr", ":/usr", scratch, text("%s/usr", root)) ||
	    lay(image, "etc", ":/etc", scratch, text("%s/etc", root)))
		return -1;
	for (const char *const *path = given; *path; path++)
		if (bind_to(*path, root, *path, 0))
			return -1;
	if (bind_to("tmpfs", root, "/run", 0) || bind_all(root) || bind_home(spank, root) || bind_script(spank, root))
		return -1;
	for (const char *const *part = parts; *part && flag[WRITABLE] == 0; part++)
		if (mount(NULL, text("%s%s", root, *part), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL))
			return FAIL("couldn't make the container read-only: %m");
	return 0;
}

static int enter(const char *root)
{
	const char *workdir = value[WORKDIR] ? value[WORKDIR] : "/";

	if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
		return FAIL("couldn't start container: %m");
	return chdir(workdir) ? FAIL("couldn't chdir to %s: %m", workdir) : 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char **words)
{
	char *scratch, *image, *root = text("%s/mount/root", state);
	int known;

	(void)count, (void)words;
	if (options_from_environment(spank))
		return -1;
	if (!value[IMAGE] && !value[NAME]) {
		for (int i = 0; i < VALUES; i++)
			if (value[i])
				slurm_error("pyxis: ignoring --container-%s because neither --container-image "
					    "nor --container-name is set", value_name[i]);
		return 0;
	}
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return FAIL("no namespace: %m");
	if (!(scratch = make_scratch()))
		return -1;
	known = value[NAME] && exists(scratch);
	if ((!known && value[IMAGE] && make_folder(scratch)) || !(image = image_of(scratch, known)))
		return -1;
	set_environment(spank, image);
	return put_together(spank, image, scratch, root) || enter(root) ? -1 : 0;
}
