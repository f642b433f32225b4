/* What sandboxes that ended for good still have mounted: see remains.h. */
#include "launch/remains.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"

enum {
  /* Two of each sandbox. A burst of removals stays below; what finds no place ends at once, and its caller waits. */
  KEPT_MAX = 256,
  /* The daemon asks for the tree's removal as soon as the end is answered. */
  KEPT_MS = 200,
};

static int kept[KEPT_MAX];
static unsigned kept_count;
static int64_t due_ms;

int remains_take(pid_t pid) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static void keep(int fd) {
  if (fd < 0) return;
  if (kept_count == KEPT_MAX) {
    close(fd);
    return;
  }
  kept[kept_count++] = fd;
}

void remains_keep(int mounts_fd, int upper_fd) {
  if (kept_count == 0) due_ms = now_ms() + KEPT_MS;
  keep(mounts_fd);
  keep(upper_fd);
}

void remains_hold(void) { kept_count = 0; }

void remains_let_go(void) {
  while (kept_count > 0) close_fd(&kept[--kept_count]);
}

int64_t remains_due_ms(void) { return kept_count == 0 ? 0 : due_ms; }
