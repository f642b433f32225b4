/* Ranges of ids: no two sandboxes have the same as long as there is one, and none is of ids that others hand out. */
#include "launch/ids.h"
#include "launch/ranges.h"
#include "launch/sandbox.h"
#include "tests/check.h"

/* Where systemd's range for trees of other machines begins. */
#define FOREIGN_FIRST 0x7FFE0000U

static struct sandbox sandboxes[OWN_RANGES + 1];

int main(void) {
  struct launcher launcher = {.has_own_ids = true};
  bool is_used[OWN_RANGES] = {false};
  for (unsigned i = 0; i < OWN_RANGES; i++) {
    unsigned root_id = ranges_take(&launcher);
    uid_t first = ids_on_host(root_id);
    CHECK(ranges_is_own(root_id) && ids_begin_own_range(first));
    CHECK(first >= ROOT_RANGE_FIRST + ROOT_RANGE_IDS && first + (SANDBOX_IDS - 1) < FOREIGN_FIRST);
    unsigned range = (first - OWN_RANGES_FIRST) / SANDBOX_IDS;
    CHECK(!is_used[range]);
    is_used[range] = true;
    sandboxes[i] = (struct sandbox){.root_id = root_id, .next = launcher.sandboxes};
    launcher.sandboxes = &sandboxes[i];
  }
  CHECK(ranges_take(&launcher) == sandbox_root_id(&launcher));
  /* More sandboxes than ranges share the common one. */
  sandboxes[OWN_RANGES] = (struct sandbox){.root_id = sandbox_root_id(&launcher), .next = launcher.sandboxes};
  launcher.sandboxes = &sandboxes[OWN_RANGES];
  CHECK(ranges_take(&launcher) == sandbox_root_id(&launcher));
  unsigned freed = sandboxes[700].root_id;
  sandboxes[701].next = sandboxes[700].next;
  CHECK(ranges_take(&launcher) == freed);
  return check_summary();
}
