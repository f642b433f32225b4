/* The end of a sandbox: ordered, or after its first process; and what is left of a start that is over. */
#ifndef SQUASH_LAUNCH_SANDBOX_END_H
#define SQUASH_LAUNCH_SANDBOX_END_H
#include "launch/sandbox.h"

/* Ends all its processes. It leaves the table later, when they are gone. */
void sandbox_end(struct launcher *launcher, struct sandbox *sandbox);
/* Removes the sandbox when nothing of it is left, else says when to look again. */
void sandbox_settle(struct launcher *launcher, struct sandbox *sandbox);
/* Closes what only a start needs. */
void sandbox_close_start(struct sandbox *sandbox);
/* Start deadlines and delayed cleanup. Returns the next deadline, 0 where there is none. */
int64_t sandboxes_expire(struct launcher *launcher);

#endif
