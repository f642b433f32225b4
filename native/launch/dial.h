/*
 * What the egress process asks the launcher to connect: destinations in the host's network, and streams to itself.
 * A dial lives until its socket is handed to the sandbox's relay or has failed; each is answered with one `dialed`.
 */
#ifndef SQUASH_LAUNCH_DIAL_H
#define SQUASH_LAUNCH_DIAL_H
#include "launch/launcher.h"
#include "launch/sandbox.h"

enum {
  /* Under way at once, of all sandboxes: each holds a descriptor and some KiB in the kernel. */
  DIALS_MAX = 8192,
  /* Of one sandbox. One that dials into the void must not use up the others' share. */
  DIALS_OF_SANDBOX_MAX = 2048,
};

struct dial {
  struct dial *next;
  struct dial *previous;
  struct source source;
  struct relay_seat *relay;
  uint64_t connection;
  int64_t deadline_ms;
  bool is_connected; /* waits for room in the relay's channel */
  struct dial *next_handover;
};

/* Of an opened socket, which it takes over. NULL without memory. */
struct dial *dial_new(struct launcher *launcher, struct relay_seat *relay, uint64_t connection, int fd);
/* The dial is over: its socket is closed here, the egress process hears `error` (0: handed over). */
void dial_end(struct launcher *launcher, struct dial *dial, int error);
/* Ends all dials for a relay, or for all where it is NULL. */
void dials_cancel(struct launcher *launcher, const struct relay_seat *relay, int error);
/* Ends those that took too long. Returns the next deadline, 0 where there is none. */
int64_t dials_expire(struct launcher *launcher);

#endif
