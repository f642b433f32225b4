/* The start of a sandbox, as the launcher sees it. */
#ifndef SQUASH_LAUNCH_SANDBOX_START_H
#define SQUASH_LAUNCH_SANDBOX_START_H
#include "launch/sandbox.h"

/*
 * Begins a start and returns 0: connections that wait for its instance are answered when PID 1 answers, or when
 * everything is cleaned up again. Returns -1 where nothing was begun: the caller answers.
 */
int sandbox_start(struct launcher *launcher, const struct request *request, struct fault *fault);
/* Hears what starter and first process have said by now. All they ever said is there when they are reaped. */
void sandbox_start_hear(struct launcher *launcher, struct sandbox *sandbox);
/* The starter or the first process ended before PID 1 answered: takes its words as the reason. */
void sandbox_start_failed(struct launcher *launcher, struct sandbox *sandbox, int status);
/* Makes a spare where one is due. Returns when to look again, 0 where nothing is to be done. */
int64_t sandbox_spares_run(struct launcher *launcher);

#endif
