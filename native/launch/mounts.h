/*
 * Volumes and directories of the host in a sandbox.
 *
 * The launcher opens them with its own rights, which are the daemon's id: as root an id that owns nothing of the host, so a directory
 * of the host comes into a sandbox only where everybody may read it, or where its owner has given it to the sandboxes' ids. No process
 * with root's rights takes part, and whoever has the daemon gains nothing here that he could not open without it.
 *
 * What was judged by the daemon is what is mounted: no link is followed on the way, and device and inode have to be those of the
 * judgement. A mount is made detached, gets its flags (never set-uid, never devices, read-only where it is), and only then has a
 * place. Nobody inside may mount, so nobody takes a flag off.
 */
#ifndef SQUASH_LAUNCH_MOUNTS_H
#define SQUASH_LAUNCH_MOUNTS_H
#include "launch/launcher.h"
#include "launch/request.h"

/*
 * The mount that was wished for, attached nowhere, in the ids of that sandbox's root. An image's, and one that hides
 * names, needs a mount namespace of the caller's own, which it makes: descriptors of the one before can't be cloned any more, so these
 * come last.
 */
int mounts_take(const struct launcher *launcher, const struct mount_wish *wish, unsigned root_id, struct fault *fault);
/* Whether that is the directory with this device and inode, as `device:inode`. */
bool mounts_are_identical(int directory, const char *identity);
/* Into the ids of that root. A host's file system that knows no maps shows its owners as nobody, which is enough for reading. */
int mounts_map(const struct launcher *launcher, const struct mount_wish *wish, unsigned root_id, int tree, struct fault *fault);
/* All of a request's but the places (place_trees.h). */
int mounts_take_all(const struct launcher *launcher, const struct request *request, unsigned root_id,
                    int mounts[MOUNTS_MAX], struct fault *fault);
/* The directory below an open root, made where it is missing; no link is followed. */
int mounts_open_target(int root, const char *target, struct fault *fault);
/* The same of a regular file. */
int mounts_open_file(int root, const char *target, struct fault *fault);
int mounts_place(int tree, int target, const struct mount_wish *wish, struct fault *fault);

#endif
