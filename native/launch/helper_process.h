/* The privileged helper's process: see helper.h for what it does. */
#ifndef SQUASH_LAUNCH_HELPER_PROCESS_H
#define SQUASH_LAUNCH_HELPER_PROCESS_H
#include "launch/cgroup_setup.h"
#include "launch/fault.h"

/*
 * Waits until the helper of an earlier launcher has ended: its last act removes the control groups' common directory,
 * which must not be the one that a new launcher has just made. Returns a descriptor with the lock that the next helper
 * keeps for its life, -1 where the earlier one does not end.
 */
int helper_lock(int run_directory, struct fault *fault);
/*
 * Forks the helper, which takes over the lock and works below the data directory. Returns the launcher's end of its socket. The helper ends when that is
 * closed everywhere, and then removes the control groups' common directory, which the launcher may not.
 */
int helper_start(const struct cgroup_setup *groups, int data_fd, int lock, struct fault *fault);

#endif
