/*
 * squash-relay: the trusted process beside a sandbox's network. It accepts what the sandbox's programs connect, asks
 * the egress process about each connection, and moves bytes between the program's socket and the one it is handed.
 *
 * It is forked by squash-launch (no exec) and shares nothing with it but what is in plan.h. Nothing else of
 * this folder is included from outside.
 */
#ifndef SQUASH_RELAY_RELAY_H
#define SQUASH_RELAY_RELAY_H
#include "relay/plan.h"

/* Gives up every right this process has beyond its descriptors. Returns 0, or -1 where the relay must not run. */
int relay_confine(const struct relay_identity *identity);
/* Serves until it is idle (0) or the launcher is gone (1). Call after relay_confine. */
int relay_run(const struct relay_plan *plan);

#endif
