/* What the two versions implement for cgroup.c; nobody else calls it. */
#ifndef SQUASH_LAUNCH_CGROUP_KIND_H
#define SQUASH_LAUNCH_CGROUP_KIND_H
#include "launch/cgroup_setup.h"

struct cgroup_kind {
  /* `is_new`: makes the common directory, or empties the one that a dead launcher left. Otherwise it is a living one's. */
  bool (*prepare)(struct cgroup_setup *setup, const char *base_name, bool is_new);
  int (*limit)(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits);
  int (*freeze)(const struct cgroup_setup *setup, const char *name, bool frozen);
  int (*usage)(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage);
};

extern const struct cgroup_kind cgroup_v1;
extern const struct cgroup_kind cgroup_v2;

#endif
