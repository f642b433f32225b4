/* The launcher is the reaper of everything it starts, and of what those leave behind. */
#ifndef SQUASH_LAUNCH_CHILDREN_H
#define SQUASH_LAUNCH_CHILDREN_H
#include <sys/types.h>

#include "launch/launcher.h"

/* Reaps every child that has ended and tells its owner. */
void children_reap(struct launcher *launcher);

/* Tells of each child that has not been reaped, however many there are. */
void children_visit(struct launcher *launcher, void (*visit)(struct launcher *launcher, pid_t pid));

#endif
