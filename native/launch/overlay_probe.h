/* Whether the kernel overlays in a user namespace, on the data directory's own file system: tried, not guessed. */
#ifndef SQUASH_LAUNCH_OVERLAY_PROBE_H
#define SQUASH_LAUNCH_OVERLAY_PROBE_H
#include <stdbool.h>
#include <stddef.h>

#include "launch/launcher.h"

/* `why` says what failed. With `on_tmpfs` the upper lies on a tmpfs. */
bool overlay_probe(const struct launcher *launcher, bool on_tmpfs, char *why, size_t size);

#endif
