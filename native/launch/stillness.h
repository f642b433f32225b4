/* Stopping and continuing all processes of a sandbox: by its control group, else by signals from within. */
#ifndef SQUASH_LAUNCH_STILLNESS_H
#define SQUASH_LAUNCH_STILLNESS_H
#include "launch/sandbox.h"

/* Returns 0 when all stand still (or go on), else -1 with errno. */
int stillness_set(const struct launcher *launcher, const struct sandbox *sandbox, bool is_still);

/* The same for whoever ordered it: it is noted in the table, and a half-done stop is undone. */
int sandbox_freeze(struct launcher *launcher, struct sandbox *sandbox, bool frozen, struct fault *fault);
/* Ends a walk that holds the sandbox at a stand-still: who is about to freeze it himself must be the only one. */
void stillness_yield(struct sandbox *sandbox);

/* Sends a signal to every process of the sandbox but PID 1, from inside its pid namespace: code in there that signals
   back may prevent it, which is -1. */
int stillness_signal(const struct sandbox *sandbox, int signal);

#endif
