/*
 * /proc, /dev, /etc, /tmp of a sandbox's root are directories and /etc/hosts, /etc/resolv.conf plain files, whatever the
 * sandbox turned them into before it was stopped: they are what the start mounts on.
 */
#ifndef SQUASH_MOUNT_POINTS_H
#define SQUASH_MOUNT_POINTS_H

/* Returns NULL, or which one can't be made, with errno. */
const char *mount_points_prepare(int root);
/*
 * What it could not make with EXDEV is a directory of a layer, which an overlay does not rename. A file that lies over it is made in
 * `data` of `upper` itself, while no overlay lies on that: nothing is walked or copied, no link is followed, and what the upper had of
 * such a directory stays beside it. What the layer has of it, the layer keeps. Returns 0, or -1 with errno.
 */
int mount_point_cover(int upper, const char *unmade);
/* A descriptor (O_PATH) of a directory below `root`, which is made where it is missing; no link is followed. -1 with errno. */
int mount_point_open(int root, const char *target);

#endif
