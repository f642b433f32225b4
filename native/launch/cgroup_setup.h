/* What control groups there are, and a group's limits and usage. */
#ifndef SQUASH_LAUNCH_CGROUP_SETUP_H
#define SQUASH_LAUNCH_CGROUP_SETUP_H
#include <stdbool.h>
#include <stdint.h>

enum cgroup_controller {
  CGROUP_MEMORY,
  CGROUP_CPU,
  CGROUP_CPUACCT,
  CGROUP_PIDS,
  CGROUP_FREEZER,
  CGROUP_CONTROLLERS,
};

/* Longest name of a group: `s` and 16 digits of an instance, or `squash-` and a hash. */
enum { CGROUP_NAME_BYTES = 32 };

struct cgroup_setup {
  int version;                 /* 0: none */
  int base[CGROUP_CONTROLLERS]; /* version 1: one directory per controller; version 2: only the first; else -1 */
  int origin;                  /* version 2: the group we were started in, to return to before the base goes; else -1 */
  bool has[CGROUP_CONTROLLERS]; /* what can be limited or measured */
  char name[CGROUP_NAME_BYTES]; /* of the data directory's group */
  char detail[256];            /* where the groups are, or why there are none: for the host probe */
};

struct cgroup_limits {
  uint64_t memory_bytes;
  uint64_t cpu_milli;
  uint64_t pids;
};

struct cgroup_usage {
  uint64_t memory_bytes;
  uint64_t cpu_us;
  uint64_t pids;
  uint64_t oom_kills;
};

#endif
