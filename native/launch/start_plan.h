/* What the launcher and the steps of a start tell each other. */
#ifndef SQUASH_LAUNCH_START_PLAN_H
#define SQUASH_LAUNCH_START_PLAN_H
#include <stdbool.h>
#include <sys/types.h>

#include "common/fault.h"
#include "launch/request.h"

/* From starter and first process to launcher; the launcher answers the NEEDS with one byte (FUSE with a descriptor along).
   What is of another length than a message is text for people: stderr of squash-init until it runs. With
   UPPER_MOUNT comes the mount of an image upper, through which the launcher measures and packs it; with
   NETWORK the listeners in the sandbox's network, and in the fault's text why there are none. */
enum starter_word { STARTER_NEEDS_MAPS = 1, STARTER_FAILED, STARTER_NEEDS_FUSE, STARTER_OVERLAY_PID, STARTER_UPPER_MOUNT,
                    STARTER_NETWORK, STARTER_GATE_PID, STARTER_FIRST_PID };
struct starter_message {
  enum starter_word word;
  pid_t pid;
  struct fault fault; /* `code` points into the program, which both have in common */
};

struct starter_plan {
  const char *group;
  uint64_t number; /* of the start, among all of this launcher */
  unsigned root_id; /* of the sandbox's root in the daemon's namespace */
  bool is_box;
  bool traces_paths; /* of a box: squash-init is behind no gate */
  bool allows_nesting; /* of a box: nesting.h */
  bool allows_group_namespaces; /* of these, also one of control groups */
  unsigned user; /* of a box */
  unsigned group_id;
  uint64_t pids_max; /* where no group counts processes; 0: none */
  int control_fd; /* socket to the launcher */
  int supply_fd;  /* what comes from outside: supply.h */
  int devices_fd; /* the helper's nodes as a mount that is nowhere yet, or -1 */
  int init_fd; /* both: a spare does not know yet which of them it becomes */
  int vmm_fd;
  int seccomp_fd;
};

#endif
