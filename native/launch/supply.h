/*
 * What a start needs of what the sandbox's id can't reach: the upper, the lowers, the socket, the request itself.
 *
 * A child of the launcher with the launcher's rights gathers it while another one makes the namespaces, and hands it over
 * as descriptors: mounts that are attached nowhere. Whoever has such a descriptor may attach it, so the data directory
 * stays closed to the sandbox's id, and no path of the host can show in /proc/self/mountinfo.
 */
#ifndef SQUASH_LAUNCH_SUPPLY_H
#define SQUASH_LAUNCH_SUPPLY_H
#include "common/device_tree.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

struct supply {
  /* As far as the first process needs it: texts, upper kind and limits, how many lowers. Texts live as long as the process. */
  struct request request;
  int listen_fd; /* the sandbox's socket, for PID 1 */
  int upper;
  int image; /* an image upper's mount as the launcher is to use it: the same where the sandbox has no ids of its own; else -1 */
  int lowers[LOWERS_MAX];
  int mounts[MOUNTS_MAX];
  int vmm_devices[VMM_DEVICES]; /* vmm_devices.h */
};

struct supply_plan {
  const struct request *request;
  unsigned root_id; /* of the sandbox's root in the daemon's namespace */
  int listen_fd;
  int socket;
};

/* In the child that gathers: sends all over the plan's socket, or why it can't. */
_Noreturn void supply_main(const struct launcher *inherited, const struct supply_plan *plan);
/* Waits for all of it. */
int supply_receive(int socket, struct supply *supply, struct fault *fault);

#endif
