/*
 * A stand-in for Pyxis: takes its options, checks them as it does, and runs each task in a root file system of its own.
 *
 * Names, checks and messages follow what Pyxis and enroot document and print; nothing of their code is in here. Unlike
 * the real one: an image is a folder made by images.py; each task has a container to itself, where Pyxis gives all tasks
 * of a node the same; there is no user namespace and no entrypoint; --container-save is refused.
 *
 *   required pyxis.so registry=FOLDER state=FOLDER
 *     registry: images that are not paths, as folders whose name has + for / : and #
 *     state: file systems of named containers (state/NODE/NAME); state/mount is where containers are put together
 *
 * Memory is not given back: these are short-lived processes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

enum { IMAGE, MOUNTS, WORKDIR, NAME, SAVE, ENV, VALUES };
enum { HOME, REMAP, ENTRYPOINT, LOG, WRITABLE, FLAGS };

/* options.c: what was asked for. A flag is -1 where nothing was said. */
extern const char *const value_name[VALUES];
extern const char *value[VALUES];
extern int flag[FLAGS];
extern const char *registry, *state;
int register_options(spank_t spank, int count, char **words);
int options_from_environment(spank_t spank);

/* container.c: puts a container together (as root), and goes into it (as the user). */
int make_container(spank_t spank);
int enter_container(void);

/* text.c */
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
int has_word(const char *list, const char *word, const char *separators);
int exists(const char *path);

#define FAIL(...) (slurm_error("pyxis: " __VA_ARGS__), -1)
#define NOTHING(...) (slurm_error("pyxis: " __VA_ARGS__), NULL)
