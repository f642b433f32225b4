/* The resident launcher: what `enter` forks into the new namespaces. */
#ifndef SQUASH_LAUNCH_RESIDENT_H
#define SQUASH_LAUNCH_RESIDENT_H
#include <stdbool.h>

#include "launch/cgroup.h"
#include "launch/fault.h"

struct resident_options {
  const char *data;
  const char *run;
  int init_fd;
  int helper_fd;
  int ready_fd; /* gets one `struct resident_ready` */
  bool is_single;
  const char *single_reason;
  struct cgroup_setup cgroups;
};

struct resident_ready {
  int pid; /* 0 where it failed */
  struct fault fault;
};

/* Returns an exit code when the launcher was shut down. */
int resident_main(const struct resident_options *options);

#endif
