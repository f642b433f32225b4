/* Hierarchies of control groups as directories and files: what both versions have in common. */
#ifndef SQUASH_LAUNCH_CGROUP_FILES_H
#define SQUASH_LAUNCH_CGROUP_FILES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The directory a hierarchy is mounted at; `controller` NULL asks for version 2. Returns false where it is not. */
bool cgroup_mount_point(const char *controller, char *path, size_t size);
/* Our own group in that hierarchy, from /proc/self/cgroup: begins with a slash. */
bool cgroup_own_path(const char *controller, char *path, size_t size);
/* One line of /proc/self/mountinfo, taken apart: for the two above and their test. */
struct mount_line {
  char *root;
  char *mount_point;
  char *type;
  char *options;
};
bool mount_line_parse(char *line, struct mount_line *mount);
/* Whether a comma-separated list holds the word. */
bool list_has(const char *list, const char *word, char separator);

/* Ends every process of a group. */
void cgroup_kill_listed(int group);
/* Ends every process in all children of `base` and removes them: what a dead launcher left. */
void cgroup_sweep(int base);
/* Gives the directory and the files a delegate writes to the daemon's id; for an ordinary user they are its own. */
int cgroup_give_away(int base);
int cgroup_file_write(int base, const char *name, const char *file, const char *text);
int cgroup_file_number(int base, const char *name, const char *file, uint64_t *number);

#endif
