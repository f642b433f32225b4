/* Children of the launcher that no table knows: it is the reaper of everything it starts. */
#ifndef SQUASH_LAUNCH_ORPHAN_H
#define SQUASH_LAUNCH_ORPHAN_H
#include "launch/launcher.h"

/* Kills those that belong to no sandbox and no worker. */
void orphans_kill(struct launcher *launcher);
/* Reaps every child that has ended and tells its owner. */
void children_reap(struct launcher *launcher);

#endif
