/* fuse-overlayfs, where the kernel can't overlay inside a user namespace. */
#ifndef SQUASH_LAUNCH_OVERLAY_FUSE_H
#define SQUASH_LAUNCH_OVERLAY_FUSE_H
#include "launch/overlay.h"
#include "launch/sandbox.h"

/* In the starter. Leaves fuse-overlayfs running, outside the sandbox's pid namespace and control groups' reach. */
int overlay_mount_fuse(const struct overlay *overlay, const char *options, struct fault *fault);
/* In the launcher: gives the starter /dev/fuse, opened as a process of its user namespace. */
int overlay_fuse_serve(struct launcher *launcher, struct sandbox *sandbox, struct fault *fault);

#endif
