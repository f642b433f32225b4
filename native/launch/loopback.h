/* The only interface of a sandbox's network namespace. */
#ifndef SQUASH_LAUNCH_LOOPBACK_H
#define SQUASH_LAUNCH_LOOPBACK_H
/* Brings `lo` up in the calling process's network namespace. Returns 0 or -1. */
int loopback_up(void);
#endif
