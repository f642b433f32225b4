/*
 * Walking and removing trees that a sandbox has made: any depth, any names, and it may be changing them meanwhile.
 *
 * No recursion, a bounded number of descriptors, no symbolic link followed, and every name is used relative to an
 * open directory, so that swapping a directory for a link leads nowhere.
 */
#ifndef SQUASH_LAUNCH_TREE_H
#define SQUASH_LAUNCH_TREE_H
#include <stdint.h>

#include "launch/fault.h"

struct tree_usage {
  uint64_t bytes;  /* allocated, as du counts: holes cost nothing, a hard link counts once */
  uint64_t lengths; /* of regular files, holes included */
  uint64_t inodes;
  uint64_t missed; /* of a measured tree: names that were listed and gone when they were looked at */
};

/* Stops early when either maximum (0: none) is passed: the answer is then above it, but not the whole. */
int tree_measure(int directory, const struct tree_usage *max, struct tree_usage *usage, struct fault *fault);

/* Removes what is at the checked relative path; nothing there is fine. At once out of sight, then piece by piece. */
int tree_remove(int data_fd, const char *path, struct fault *fault);

#endif
