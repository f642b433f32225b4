/* The launcher is the reaper of everything it starts, and of what those leave behind. */
#ifndef SQUASH_LAUNCH_CHILDREN_H
#define SQUASH_LAUNCH_CHILDREN_H
#include "launch/launcher.h"

/* Reaps every child that has ended and tells its owner. */
void children_reap(struct launcher *launcher);

#endif
