/* What the keeper does about a part that lives and does not answer. Each is run by a child of it and returns its exit code. */
#ifndef SQUASH_LAUNCH_HUNG_H
#define SQUASH_LAUNCH_HUNG_H
#include "launch/enter.h"

/* Kills the launcher, with what the daemon's own id may do. */
int hung_end_launcher(const struct enter_options *options);
/* As root: kills the privileged helper. */
int hung_end_helper(const struct enter_options *options);

#endif
