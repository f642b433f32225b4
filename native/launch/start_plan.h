/* What the launcher and the steps of a start tell each other. */
#ifndef SQUASH_LAUNCH_START_PLAN_H
#define SQUASH_LAUNCH_START_PLAN_H
#include <sys/types.h>

#include "launch/fault.h"
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
  const struct request *request;
  const char *group;
  int control_fd; /* socket to the launcher */
  int listen_fd;  /* the sandbox's socket, for PID 1 */
};

/* Mounts that are attached nowhere yet. */
struct gathered {
  int lowers[LOWERS_MAX]; /* as many as the request has */
  int upper;
  int devices; /* the helper's nodes, or -1 */
};

#endif
