/* The privileged helper's process: see helper.h for what it does. */
#ifndef SQUASH_LAUNCH_HELPER_PROCESS_H
#define SQUASH_LAUNCH_HELPER_PROCESS_H
#include "launch/cgroup_setup.h"
#include "common/fault.h"

/*
 * Waits until the helper of an earlier launcher has ended: its last act removes the control groups' common directory,
 * which must not be the one that a new launcher has just made. Returns a descriptor with the lock that the next helper
 * keeps for its life, -1 where the earlier one does not end.
 */
int helper_lock(int data_fd, const char *group, struct fault *fault);
/* The same without waiting: -1 where one lives. */
int helper_lock_now(int data_fd);
/* What the helper keeps open for its life. */
struct helper {
  int socket;
  int lock; /* goes when this process and its child end, whatever ends them */
  int data_fd;
  const struct cgroup_setup *groups;
};

/* The launcher's end of the helper's socket, then the helper's. Returns 0 or -1. */
int helper_pair(int ends[2], struct fault *fault);
/*
 * Forks the helper, which takes over what it is given. It ends when the launcher's end of its socket is closed everywhere,
 * and then removes the control groups' common directory with all that runs there, which the launcher may not: so the
 * launcher has its end before.
 */
int helper_start(const struct helper *helper, struct fault *fault);

#endif
