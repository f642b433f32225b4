/*
 * Boxes whose programs may make namespaces of their own, for a sandbox inside the sandbox.
 *
 * Whoever makes a user namespace has every capability in it, over what he makes in it as well and over nothing else. The box's mounts
 * come into a mount namespace of his as one piece that he can't take apart (user_namespaces(7), "locked"), its ids are all that he can
 * map, and what the kernel counts for the box it goes on counting. What is done here is what the kernel does not do by itself:
 *
 *   control groups   who has a namespace of them can mount them from his own group down, and writes what is his user's: the limits of the
 *                    box, and where it has no group of its own those of others, whom he could also end. So such a namespace is there
 *                    only where the box has a group and the kernel keeps its limits (version 2, mounted with nsdelegate, as systemd does)
 *   namespaces       bounded in number: not all of what one costs is counted for a group
 *   filters          a process may have 32,768 instructions of seccomp, in memory that the machine has a fixed amount of (seccomp.c). All
 *                    but some thousand of them are used up before programs come, by instructions that are never reached
 *
 * /proc keeps its covers, so the kernel lets nobody mount another one.
 */
#ifndef SQUASH_LAUNCH_NESTING_H
#define SQUASH_LAUNCH_NESTING_H
#include <stdbool.h>

#include "launch/cgroup.h"
#include "common/fault.h"

/* Of the calling process, which is in its group. */
bool nesting_allows_group_namespaces(const struct cgroup_setup *setup, const char *group);
/* As root of the box's user namespace, with its /proc below the working directory. */
int nesting_limit_namespaces(struct fault *fault);
/* Where the machine lets nobody in here make one, whatever we let through. Forks. */
int nesting_try(struct fault *fault);
/* Of the calling process and all that come from it. */
int nesting_use_up_filters(void);

#endif
