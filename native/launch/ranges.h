/*
 * Ids of its own for each sandbox, where root started Squash: what the kernel counts per user of the host (registrations of
 * epoll, the size of pipes, descriptors in flight) is then counted per sandbox. In the daemon's namespace the ranges
 * follow the common one.
 *
 * On the disk every file has ids of the common range, in uppers as in layers, so that a snapshot, a restore and a start in
 * another range need no change of owners. A sandbox with a range of its own has them mounted with a map (helper_trees.c).
 */
#ifndef SQUASH_LAUNCH_RANGES_H
#define SQUASH_LAUNCH_RANGES_H
#include "launch/launcher.h"
#include "launch/request.h"

/* The id of the next sandbox's root in the daemon's namespace: of a range that no sandbox has, else of the common one. */
unsigned ranges_take(const struct launcher *launcher);
bool ranges_is_own(unsigned root_id);
/* Whether such an upper can be mounted with a map, where sandboxes have ranges of their own. */
bool ranges_fit(const struct launcher *launcher, enum upper_kind kind);

#endif
