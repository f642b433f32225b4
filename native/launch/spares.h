/*
 * Spare sandboxes: started as far as no request is needed, they wait for one. That is two thirds of a start.
 *
 * A spare stands in the table of sandboxes without a name, so it is counted, listed and announced nowhere; its first
 * process calls itself `squash-launch spare`. It ends with the launcher: nobody else can send it what it waits for.
 */
#ifndef SQUASH_LAUNCH_SPARES_H
#define SQUASH_LAUNCH_SPARES_H
#include "launch/sandbox.h"

enum {
  /* A client that makes one sandbox after the other always finds one. Each holds 0.3 MB, a network namespace, and a group. */
  SPARES_MAX = 3,
};

/* No sandbox's instance: requests have numbers that JSON can hold. */
#define SPARE_INSTANCE UINT64_MAX

/* Whether one is to be made now: one is missing, and nothing starts. `next_ms` is when to ask again; 0: at the next start. */
bool spares_are_due(struct launcher *launcher, int64_t *next_ms);
/* The one that waits longest, or NULL. It is the caller's to name. */
struct sandbox *spares_take(struct launcher *launcher);
/* A spare ended, or can't be made: others are tried later and later. */
void spares_failed(struct launcher *launcher, const struct fault *fault);

#endif
