/* fuse-overlayfs, where the kernel can't overlay inside a user namespace. */
#ifndef SQUASH_LAUNCH_OVERLAY_FUSE_H
#define SQUASH_LAUNCH_OVERLAY_FUSE_H
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/start_plan.h"

/* In the starter. Leaves fuse-overlayfs running, outside the sandbox's pid namespace and control groups' reach. */
int overlay_mount_fuse(const struct launcher *launcher, const struct starter_plan *plan, const char *options,
                       struct fault *fault);

#endif
