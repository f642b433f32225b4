/* Stopping and continuing all processes of a sandbox: by its control group, else by signals from within. */
#ifndef SQUASH_LAUNCH_STILLNESS_H
#define SQUASH_LAUNCH_STILLNESS_H
#include "launch/sandbox.h"

/* Returns 0 when all stand still (or go on), else -1 with errno. */
int stillness_set(const struct launcher *launcher, const struct sandbox *sandbox, bool is_still);

/* For whoever ordered the stand-still: it is noted in the table. */
int sandbox_thaw(const struct launcher *launcher, struct sandbox *sandbox, struct fault *fault);
/* Ends a walk that holds the sandbox at a stand-still: who is about to freeze it himself must be the only one. */
void stillness_yield(struct sandbox *sandbox);
/* A child of ours that leads a group, with those that it has sent inside: they would stop the ones that come now. Gone when this
   returns, before anybody relies on the stand-still being his; who reaps it is children_reap. */
void stillness_end_group(pid_t leader);

/* Sends a signal to every process of the sandbox but PID 1, from inside its pid namespace: code in there that signals
   back may prevent it, which is -1. */
int stillness_signal(const struct sandbox *sandbox, int signal);

#endif
