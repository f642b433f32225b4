/*
 * Whose data directory it is. Three locks lie in the data directory itself, so that they hold whatever run directory
 * somebody names: `launch.lock`, taken for one `enter`; `launcher.lock`, which the resident launcher holds for its life
 * and which names its run directory; `daemon.lock`, the daemon's own, which is only looked at here.
 */
#ifndef SQUASH_LAUNCH_CLAIM_H
#define SQUASH_LAUNCH_CLAIM_H
#include <limits.h>
#include <stdbool.h>

#include "common/fault.h"

/* Waits for its turn. Returns the descriptor that holds it. */
int claim_turn(int data_fd, const char *data, struct fault *fault);

/* `launcher.lock`, opened and not yet taken. Close it where it was not handed on; the lock goes with its last copy. */
int claim_open(int data_fd, const char *data, struct fault *fault);
/* True where no launcher lives for this data directory; from then on whoever has `claim` counts as one. */
bool claim_take(int claim);
/* The run directory of the launcher that holds or held the claim; empty where there was none. */
void claim_read(int claim, char run[PATH_MAX]);
int claim_write(int claim, const char *run, struct fault *fault);

/* Does a daemon work in the data directory? */
bool claim_has_daemon(int data_fd);

#endif
