/* Whether the kernel overlays in a user namespace, on the data directory's own file system: tried, not guessed. */
#ifndef SQUASH_LAUNCH_OVERLAY_PROBE_H
#define SQUASH_LAUNCH_OVERLAY_PROBE_H
#include <stdbool.h>
#include <stddef.h>

#include "launch/launcher.h"

struct overlay_trial {
  bool on_tmpfs;    /* the upper lies on a tmpfs */
  unsigned root_id; /* of a range of its own, in whose ids the trees are mounted; 0: none */
};

/* `why` says what failed, errno its number; a lack of room is no failure unless ids were to be mapped. */
bool overlay_probe(const struct launcher *launcher, struct overlay_trial trial, char *why, size_t size);

#endif
