/*
 * What sandboxes that ended for good still have mounted.
 *
 * Taking down a sandbox's mounts writes out what its upper's file system holds, which takes as long as that is much,
 * and nobody will read it. So whoever removes a sandbox is not kept waiting: the launcher holds the sandbox's mount
 * namespace and image in its place, and gives them up to the next child that removes a tree. That child has taken the
 * files' names away by then, so the little that is still written goes to a file that is thrown away. Where none comes a
 * child of their own ends them. They are descriptors and no more: whatever dies, the kernel takes them down.
 */
#ifndef SQUASH_LAUNCH_REMAINS_H
#define SQUASH_LAUNCH_REMAINS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What holds the mounts of the sandbox with this first process; -1 where that can't be had: then they go with it. */
int remains_take(pid_t pid);

/* Owns both from now on; the second may be -1. */
void remains_keep(int mounts_fd, int upper_fd);

/* In a forked child that ends soon: it holds them until then, as the last one. */
void remains_hold(void);
/* Behind that fork, and in every other child: closes them. */
void remains_let_go(void);

/* When a child of their own is due, on the monotonic clock; 0: there are none. */
int64_t remains_due_ms(void);

#endif
