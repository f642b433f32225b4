/* What the two versions implement for cgroup.c; nobody else includes this. */
#ifndef SQUASH_LAUNCH_CGROUP_KIND_H
#define SQUASH_LAUNCH_CGROUP_KIND_H
#include "launch/cgroup.h"

struct cgroup_kind {
  bool (*prepare)(struct cgroup_setup *setup, const char *base_name);
  int (*limit)(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits);
  int (*freeze)(const struct cgroup_setup *setup, const char *name, bool frozen);
  int (*usage)(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage);
};

extern const struct cgroup_kind cgroup_v1;
extern const struct cgroup_kind cgroup_v2;

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

/* Ends every process in all children of `base` and removes them: what a dead launcher left. */
void cgroup_sweep(int base);
/* Gives the directory and the files a delegate writes to the daemon's id; for an ordinary user they are its own. */
int cgroup_give_away(int base);
int cgroup_file_write(int base, const char *name, const char *file, const char *text);
int cgroup_file_number(int base, const char *name, const char *file, uint64_t *number);

#endif
