/*
 * Uppers: the writable layer of a sandbox, `data` and `work` in one directory per generation, and `mounts` where it writes to
 * directories of the host that keep nothing of it (places.h).
 *
 *   directory  plain; the limit is held by accounting (watchdog.c)
 *   project    plain, limited by the file system's project quota (set by the privileged helper)
 *   image      an ext4 file of fixed size beside the directory, mounted by the privileged helper at each start
 *   tmpfs      mounted in the launcher's mount namespace; lives as long as the launcher
 */
#ifndef SQUASH_LAUNCH_UPPER_H
#define SQUASH_LAUNCH_UPPER_H
#include "launch/request.h"
#include "launch/sandbox.h"
#include "tree/tree.h"

int upper_create(const struct launcher *launcher, const struct request *request, struct fault *fault);
/* Before a start, in the starter while it is in the launcher's mount namespace: what is not there by itself after a
   reboot. `mount_fd` gets the detached mount of an image, else -1. */
int upper_attach(const struct launcher *launcher, const struct request *request, int *mount_fd, struct fault *fault);
/* A further mount of an image's file system, as a detached tree: what a worker attaches elsewhere. */
int upper_mount_again(const struct launcher *launcher, const char *path, struct fault *fault);
/* Whether `data` and `work` are there and no links, which the mount of the overlay would follow. */
bool upper_is_whole(int upper);
/*
 * Room that a sandbox which has filled its upper leaves for its own next start: the overlay and the mount points need
 * some inodes. Given free before the mount where there is no other room, taken back after; in the working directory's
 * `u`, under the sandbox's id. An image has it from the beginning.
 */
void upper_spare_release(int upper, enum upper_kind kind);
void upper_spare_take(int upper);
/* Root's own spares become the sandbox's: in a mount with a map nobody takes away what belongs to no id of it. */
void upper_spare_give(int upper, uid_t owner);
/* The directory with `data`, readable whether the sandbox runs or not. Returns a descriptor. */
int upper_open(const struct launcher *launcher, const struct request *request, struct fault *fault);
/* As tree_measure: what the sandbox has written. */
int upper_measure(int upper, const struct tree_usage *max, struct tree_usage *usage, struct fault *fault);
int upper_usage(const struct launcher *launcher, const struct request *request, struct tree_usage *usage,
                struct fault *fault);

#endif
