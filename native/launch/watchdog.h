/*
 * Holds the limit of directory uppers by accounting, where the file system can't.
 *
 * How much a sandbox may overshoot: what it can write between two looks, at most WATCHDOG_MS apart plus the time of
 * one walk. A file alone can't pass the limit (RLIMIT_FSIZE).
 */
#ifndef SQUASH_LAUNCH_WATCHDOG_H
#define SQUASH_LAUNCH_WATCHDOG_H
#include "launch/launcher.h"

/* Looks when it is time to. Returns when to look next, 0 where nothing needs watching. */
int64_t watchdog_run(struct launcher *launcher);

#endif
