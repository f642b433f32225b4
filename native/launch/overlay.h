/* The sandbox's root: lowers and upper merged, by the kernel or by fuse-overlayfs. */
#ifndef SQUASH_LAUNCH_OVERLAY_H
#define SQUASH_LAUNCH_OVERLAY_H
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/start_plan.h"

/* In the starter's working directory: `l/0` … are the lowers, topmost first, `u/data` and `u/work` the upper, `root`
   becomes the merged tree. */
int overlay_mount(const struct launcher *launcher, const struct starter_plan *plan, const struct request *request,
                  struct fault *fault);

#endif
