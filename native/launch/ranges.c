/* Ids of its own for each sandbox: see ranges.h. */
#include "launch/ranges.h"

#include "launch/ids.h"
#include "launch/sandbox.h"

static unsigned range_at(unsigned index) { return ROOT_RANGE_IDS + index * SANDBOX_IDS; }

bool ranges_is_own(unsigned root_id) { return root_id >= ROOT_RANGE_IDS; }

bool ranges_fit(const struct launcher *launcher, enum upper_kind kind) {
  return !launcher->has_own_ids || launcher->maps_tmpfs || kind != UPPER_TMPFS;
}

/* The first that is free: the helper keeps the maps of the first ranges (helper_process.c). */
unsigned ranges_take(const struct launcher *launcher) {
  bool is_taken[OWN_RANGES] = {false};
  if (!launcher->has_own_ids) return sandbox_root_id(launcher);
  for (const struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (ranges_is_own(at->root_id)) is_taken[(at->root_id - ROOT_RANGE_IDS) / SANDBOX_IDS] = true;
  }
  for (unsigned i = 0; i < OWN_RANGES; i++) {
    if (!is_taken[i]) return range_at(i);
  }
  return sandbox_root_id(launcher);
}
