/* Whether sandboxes can have ranges of their own (ranges.h): tried, not guessed. */
#ifndef SQUASH_LAUNCH_RANGES_PROBE_H
#define SQUASH_LAUNCH_RANGES_PROBE_H
#include "launch/launcher.h"

/* Sets what the launcher knows about it. */
void ranges_probe(struct launcher *launcher);

#endif
