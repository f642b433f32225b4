/* The resident launcher: what `enter` forks into the new namespaces. */
#ifndef SQUASH_LAUNCH_RESIDENT_H
#define SQUASH_LAUNCH_RESIDENT_H
#include <stdbool.h>

#include "launch/cgroup.h"
#include "common/fault.h"

struct resident_options {
  const char *data;
  const char *run;
  int init_fd;
  int vmm_fd;
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

/* The two programs that PID 1 of a sandbox may be; squash-vmm lies beside squash-init. `resident_main` closes its own. */
int resident_open_programs(struct resident_options *options, const char *init, struct fault *fault);
void resident_close_programs(const struct resident_options *options);
/* Returns an exit code when the launcher was shut down. */
int resident_main(const struct resident_options *options);

#endif
