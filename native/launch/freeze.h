/*
 * Stand-stills that clients ask for. A child makes them, for it takes seconds where processes inside prevent it; the client hears of it
 * when it is done and in the table. What could not be done whole is undone.
 */
#ifndef SQUASH_LAUNCH_FREEZE_H
#define SQUASH_LAUNCH_FREEZE_H
#include "launch/connection.h"
#include "launch/sandbox.h"

void freeze_begin(struct launcher *launcher, struct sandbox *sandbox, struct connection *connection);
void freeze_child_ended(struct launcher *launcher, struct sandbox *sandbox, int status);
/* Ends whoever of ours makes the sandbox stand still, or holds it so to look: there is something else to be done with it. */
void freeze_yield(struct launcher *launcher, struct sandbox *sandbox);

#endif
