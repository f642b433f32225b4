/*
 * Room for image uppers. Images are sparse, and together they may promise more than the host's file system has left. So
 * the file system in each image may give out only what the host can still hold: the kernel's count of reserved blocks
 * (ext4's `reserved_clusters`) withholds the rest from every write, at once. A sandbox whose share is used up sees a full
 * disk; a write that a file system has accepted finds its place on the host.
 *
 * What is owed comes first: blocks that images have given out and the host has not yet (dirty pages, delayed allocation,
 * unwritten extents), and their metadata. Of what is left above the low-water mark half is shared by all images, half by
 * those that grow. What other programs of the host write is not held back: for that there is the mark, and below half
 * of it everything is written out while it still finds a place.
 */
#ifndef SQUASH_LAUNCH_ROOM_H
#define SQUASH_LAUNCH_ROOM_H
#include "launch/launcher.h"

/* Looks when it is time to. Returns when to look next, 0 where there is no image. */
int64_t room_run(struct launcher *launcher);

#endif
