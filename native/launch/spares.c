/* Spare sandboxes: see spares.h. */
#include "launch/spares.h"

#include <signal.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "launch/log.h"

enum {
  /* Shorter than between the requests of one client, longer than between those of a burst. */
  QUIET_MS = 4,
  AGAIN_MS_MIN = 1000,
  AGAIN_MS_MAX = 60000,
};

/* A limit of processes without a group is set before the request is known. A program that serves the overlay stands
   outside the sandbox, and has to be started with the overlay. */
static bool may_wait(const struct launcher *launcher) {
  return launcher->cgroups.has[CGROUP_PIDS] && !launcher->overlays_by_fuse && !launcher->is_ending;
}

bool spares_are_due(struct launcher *launcher, int64_t *next_ms) {
  int64_t now = now_ms();
  unsigned spares = 0;
  bool is_busy = false;
  *next_ms = launcher->spares_due_ms;
  if (launcher->spares_due_ms == 0 || now < launcher->spares_due_ms) return false;
  for (const struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    spares += at->state == SANDBOX_SPARE ? 1 : 0;
    is_busy |= at->state == SANDBOX_STARTING;
  }
  bool is_missing = spares < SPARES_MAX && may_wait(launcher);
  launcher->spares_due_ms = is_missing ? now + QUIET_MS : 0;
  *next_ms = launcher->spares_due_ms;
  return is_missing && !is_busy;
}

/* That it ended may not have been heard yet. */
static bool is_whole(const struct sandbox *sandbox) {
  siginfo_t end = {0};
  return sandbox->state == SANDBOX_SPARE && sandbox->was_known && sandbox->pid != 0 &&
         waitid(P_PID, (id_t)sandbox->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0;
}

struct sandbox *spares_take(struct launcher *launcher) {
  struct sandbox *oldest = NULL; /* The newest stands first. */
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (is_whole(at)) oldest = at;
  }
  int64_t quiet = now_ms() + QUIET_MS;
  if (launcher->spares_due_ms < quiet) launcher->spares_due_ms = quiet;
  if (oldest != NULL) launcher->spares_wait_ms = 0;
  return oldest;
}

void spares_failed(struct launcher *launcher, const struct fault *fault) {
  int64_t wait = launcher->spares_wait_ms == 0 ? AGAIN_MS_MIN : 2 * launcher->spares_wait_ms;
  launcher->spares_wait_ms = wait < AGAIN_MS_MAX ? wait : AGAIN_MS_MAX;
  launcher->spares_due_ms = now_ms() + launcher->spares_wait_ms;
  log_line("a spare sandbox ended: %s", fault->text);
}
