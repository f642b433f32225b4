/*
 * Packing an upper, or what it has other than at a snapshot before: see tree_change.h. The request names the index that was
 * written at that snapshot, where there is one, and where to write this one's.
 *
 * Whatever stands in the way makes it a whole image: no index, one that does not fit, a file system that keeps no time of
 * what programs have mapped, fuse-overlayfs, which has marks and times of its own.
 */
#ifndef SQUASH_LAUNCH_IMAGE_CHANGE_H
#define SQUASH_LAUNCH_IMAGE_CHANGE_H
#include <stdbool.h>

#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "launch/tool.h"

struct image_change {
  const struct launcher *launcher;
  const struct request *request;
  struct tool *tool; /* of the whole upper */
  /* Results */
  bool is_change; /* on what `known` was written at */
  bool has_index;
};

/* Before the sandbox stands still: what has to be on the disk then is most of it already. */
void image_change_prepare(const struct image_change *change);
int image_change_pack(struct image_change *change, struct fault *fault);

#endif
