/*
 * The sandbox's root, put together in the mount namespace that the sandbox's user namespace owns: the overlay, /proc with
 * what it must not tell covered, /dev, /etc/hosts and /etc/resolv.conf.
 *
 * What lies in the upper is the sandbox's own word, from before it was stopped. So nothing is mounted on a path that goes
 * through it: only on one name in a directory that is open and was looked at, and no link is followed.
 */
#ifndef SQUASH_LAUNCH_NEW_ROOT_H
#define SQUASH_LAUNCH_NEW_ROOT_H
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/start_plan.h"
#include "launch/supply.h"

/* A tmpfs becomes the working directory, in this mount namespace alone. */
int new_root_begin(struct fault *fault);
/* In the first process, whose /proc it is: what depends on no request. Afterwards nothing of the host's tree is there, but
   where fuse-overlayfs serves the overlay. */
int new_root_prepare(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault);
/* Attaches what came from outside and mounts the overlay. */
int new_root_assemble(const struct launcher *launcher, const struct starter_plan *plan, struct supply *supply,
                      struct fault *fault);
/* In the first process, at last: puts all together and lets go of everything else. */
int new_root_enter(struct supply *supply, struct fault *fault);

#endif
