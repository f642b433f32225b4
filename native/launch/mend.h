/* Reaching a living launcher from outside, and bringing back the privileged helper that it has lost. */
#ifndef SQUASH_LAUNCH_MEND_H
#define SQUASH_LAUNCH_MEND_H
#include <sys/socket.h>

#include "common/fault.h"

/* The launcher only talks to its own id, so root asks as that id. Returns -1 where nobody listens; `peer` is who does. */
int launcher_connect(int run_fd, struct ucred *peer);

/*
 * As root, with the turn (claim.h), where a launcher lives: another helper, where all of the last one was killed. Returns 0
 * where there is one afterwards.
 */
int mend_helper(const char *data, int data_fd, int run_fd, struct fault *fault);

#endif
