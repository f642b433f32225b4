/*
 * What Squash's own processes on the host never ask of the kernel, refused: a hijacked one then reaches less of it. A deny
 * list, unlike the filters of sandboxes and of the privileged helper: Node and the tools that are started may use whatever else comes up. Inherited by
 * all that they start.
 */
#ifndef SQUASH_LAUNCH_HOST_FILTER_H
#define SQUASH_LAUNCH_HOST_FILTER_H
#include "common/fault.h"

enum host_filter {
  HOST_FILTER_LAUNCHER = 1, /* makes namespaces and mounts; sandboxes inherit it, whose own filter refuses these as well */
  HOST_FILTER_NODE = 2,     /* daemon and egress process: none of it */
  HOST_FILTER_EGRESS = 4,   /* beside the daemon's: changes of files by name, which Landlock does not see */
  HOST_FILTER_GATEWAY = 8,  /* beside the egress process's: signals, and sockets but of the family Unix */
};

/* For the rest of the process's life, and for good: no new privileges by set-uid files either, except for the launcher,
   whose starts decide that themselves. */
int host_filter_load(enum host_filter who, struct fault *fault);

#endif
