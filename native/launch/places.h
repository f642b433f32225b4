/*
 * The host's file system, seen through rules: the root of a box, and directories of the host in a root of layers.
 *
 * A box's ground is the sandbox's own upper, `u/data`, without layers: what no place opens is empty, private and writable. In a root of
 * layers each directory that is attached has its own part, `u/mounts/data/<id of the mount>`, which goes when it is detached. On either lie places, parents before what is in them:
 *
 *   bind      a directory or a regular file of the host with all that is mounted below it
 *   overlay   a directory of the host with an upper of its own at the same path of the sandbox's own part, so all that a box writes
 *             lies in one tree. Without the right to write it is there for what it does not show
 *   private   the upper's own directory over what the host has there, or where there is nothing
 *   whiteout  a name that the overlay above it does not show, in a layer of its own below what is written; it comes before that one in the request
 *   deny      a node that nobody opens over something that is there
 *   file      a file of the data directory, to be read
 *   link      a symbolic link
 *   socket    a Unix socket of the host: who connects speaks with the host's program
 *   device    a character device of the host in the box's own /dev, at the same path
 *
 * What the daemon has judged is what is mounted, as in mounts.h: no link is followed, device and inode are compared. Nothing
 * is ever made in what is the host's: a mount point that is missing is made in the own part, and where that does not show the start fails.
 * What lies there from an earlier start is the sandbox's own word: it is opened beneath it, and no link is followed there either.
 */
#ifndef SQUASH_LAUNCH_PLACES_H
#define SQUASH_LAUNCH_PLACES_H
#include "common/fault.h"
#include "launch/supply.h"

/* In the first process: `u/data` becomes `root`. */
int places_lay_ground(struct fault *fault);
/* All places of a box, onto an open root. */
int places_put(int root, struct supply *supply, struct fault *fault);
/* In a root of layers: what was written to directories that the sandbox has no more. */
void places_drop_left(const struct request *request);
/* One of a root of layers; those that it lies in are put. */
int places_put_in_layers(int root, struct supply *supply, size_t index, struct fault *fault);
/* Its devices, into what becomes the box's /dev and is closed to writing again behind it. */
int places_put_devices(const char *path, struct supply *supply, struct fault *fault);
/* When nothing has to be made in them any more. */
int places_close(struct supply *supply, struct fault *fault);

#endif
