/*
 * /proc, /dev, /etc, /tmp of a sandbox's root are directories and /etc/hosts, /etc/resolv.conf plain files, whatever the
 * sandbox turned them into before it was stopped: they are what the start mounts on.
 */
#ifndef SQUASH_MOUNT_POINTS_H
#define SQUASH_MOUNT_POINTS_H

/* Returns NULL, or which one can't be made, with errno. */
const char *mount_points_prepare(int root);

#endif
