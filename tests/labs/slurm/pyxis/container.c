/* A root file system for one task: an overlay over the image's folder and this machine's /usr and /etc, and mounts. */
#include "pyxis.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

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
	for (char *at = name; (at = strpbrk(at, "/#:"));)
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
	/* Another task of the node may have made it meanwhile. */
	if (image && value[NAME] && symlink(image, link) && errno != EEXIST)
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

/* Puts a writable layer over a part of the image, where we are, and, but for its root, this machine's own. */
static int lay(const char *part, const char *own, const char *scratch, const char *target)
{
	char *upper = text("%s/upper/%s", scratch, part), *work = text("%s/work/%s", scratch, part);
	char *layers = text("lowerdir=%s%s,upperdir=%s,workdir=%s", part, own, upper, work);

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

static int lay_all(const char *image, const char *scratch, const char *root)
{
	int before = open(".", O_PATH | O_CLOEXEC);

	if (chdir(image) || lay("root", "", scratch, root) || lay("usr", ":/usr", scratch, text("%s/usr", root)) ||
	    lay("etc", ":/etc", scratch, text("%s/etc", root)))
		return -1;
	return fchdir(before);
}

static int fill(spank_t spank, const char *root)
{
	static const char *const given[] = {"/proc", "/sys", "/dev", "/etc/hosts", "/etc/passwd", "/etc/group", NULL};
	static const char *const parts[] = {"/usr", "/etc", "", NULL};

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

int make_container(spank_t spank)
{
	char *scratch, *image, *root = text("%s/mount/root", state);
	int known;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return FAIL("no namespace: %m");
	if (!(scratch = make_scratch()))
		return -1;
	known = value[NAME] && exists(scratch);
	if ((!known && value[IMAGE] && make_folder(scratch)) || !(image = image_of(scratch, known)))
		return -1;
	set_environment(spank, image);
	return lay_all(image, scratch, root) || fill(spank, root) ? -1 : 0;
}

static int write_file(const char *path, const char *words)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, words, strlen(words)) < 0)
		return -1;
	return close(file);
}

/* A plain user may change the root in a user namespace only. */
static int become_able(void)
{
	uid_t user = getuid();
	gid_t group = getgid();
	int inside = flag[REMAP] == 1;

	if (!user)
		return 0;
	/* Having been root, it may not write to its own /proc otherwise. */
	return prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER) || write_file("/proc/self/setgroups", "deny") ||
	       write_file("/proc/self/uid_map", text("%u %u 1", inside ? 0 : user, user)) ||
	       write_file("/proc/self/gid_map", text("%u %u 1", inside ? 0 : group, group));
}

int enter_container(void)
{
	const char *workdir = value[WORKDIR] ? value[WORKDIR] : "/";

	if (become_able() || chroot(text("%s/mount/root", state)) || chdir("/"))
		return FAIL("couldn't start container: %m");
	return chdir(workdir) ? FAIL("couldn't chdir to %s: %m", workdir) : 0;
}
