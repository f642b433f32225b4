/*
 * Whose the data and the run directory are. Where root starts Squash they belong to the daemon's id, and what lies in
 * them is the work of somebody who may be hostile: nothing below them is reached by a path that he could have bent.
 */
#ifndef SQUASH_LAUNCH_OWNER_H
#define SQUASH_LAUNCH_OWNER_H
#include <stdbool.h>
#include <sys/types.h>

#include "common/fault.h"

/* Opens a directory that the operator named as `given`, which `path` is without links. Root gives it to the daemon's id: once, only what root itself owns, and
   only where the daemon could not have put it there. */
int owner_open(const char *path, const char *given, struct fault *fault);
/* The same for a directory below the data directory, which is made where it is missing: no link is followed, no mount
   is passed. `path` is relative. */
int owner_open_below(int data_fd, const char *path, struct fault *fault);
/* What is left of `path` below `directory`, as both are written; NULL where it does not lie there. */
const char *owner_path_below(const char *path, const char *directory);
/* Is this one of the ids that root's Squash hands out? */
bool owner_is_of_range(unsigned uid);
/* The real id that a process runs under, whatever /proc shows as its files' owner; -1 where there is none. */
uid_t owner_of_process(pid_t pid);

#endif
