/* The steps of a sandbox's life that sandbox.c and sandbox_start.c call in each other. Nobody else includes this. */
#ifndef SQUASH_LAUNCH_SANDBOX_STEPS_H
#define SQUASH_LAUNCH_SANDBOX_STEPS_H
#include "launch/sandbox.h"

/* The starter ended before PID 1 answered: takes its words as the reason. */
void sandbox_start_failed(struct launcher *launcher, struct sandbox *sandbox, int status);
void sandbox_close_start(struct sandbox *sandbox);
void sandbox_settle(struct launcher *launcher, struct sandbox *sandbox);

#endif
