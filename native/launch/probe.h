/* What this host offers: one `entry` frame per capability, as contract/src/capability.ts describes them. */
#ifndef SQUASH_LAUNCH_PROBE_H
#define SQUASH_LAUNCH_PROBE_H
#include "launch/launcher.h"

/* In a worker: everything is tried, not guessed. */
void probe_send(const struct launcher *launcher, int client);

#endif
