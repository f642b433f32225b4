/* Stopping and continuing all processes of a sandbox: by its control group, else by signals from within. */
#ifndef SQUASH_LAUNCH_STILLNESS_H
#define SQUASH_LAUNCH_STILLNESS_H
#include "launch/sandbox.h"

/* Returns 0 when all stand still (or go on), else -1 with errno. */
int stillness_set(const struct launcher *launcher, const struct sandbox *sandbox, bool is_still);

/* Sends a signal to every process of the sandbox but PID 1, from inside its pid namespace: code in there that signals
   back may prevent it, which is -1. */
int stillness_signal(const struct sandbox *sandbox, int signal);

#endif
