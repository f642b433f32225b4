/*
 * The child that becomes a sandbox: cgroup, ids, namespaces, overlay, bubblewrap.
 *
 * It is forked by the launcher and dies with it until bubblewrap runs. What it learns on the way it tells over
 * `control`: a question for the id maps, or a fault.
 */
#ifndef SQUASH_LAUNCH_STARTER_H
#define SQUASH_LAUNCH_STARTER_H
#include "launch/launcher.h"
#include "launch/request.h"

/* From starter to launcher; the launcher answers the NEEDS with one byte (FUSE with a descriptor along). With
   UPPER_MOUNT comes the mount of an image upper, through which the launcher measures and packs it; with
   NETWORK the listeners in the sandbox's network, and in the fault's text why there are none. */
enum starter_word { STARTER_NEEDS_MAPS = 1, STARTER_FAILED, STARTER_NEEDS_FUSE, STARTER_OVERLAY_PID, STARTER_UPPER_MOUNT,
                    STARTER_NETWORK };
struct starter_message {
  enum starter_word word;
  pid_t pid;
  struct fault fault; /* `code` points into the program, which both have in common */
};

struct starter_plan {
  const struct request *request;
  const char *group;
  int control_fd; /* socket to the launcher */
  int listen_fd;  /* the sandbox's socket, for PID 1 */
  int info_fd;    /* where bubblewrap writes PID 1's id */
  int error_fd;   /* becomes stderr */
};

_Noreturn void starter_main(const struct launcher *launcher, const struct starter_plan *plan);

#endif
