/* The end of a sandbox: see sandbox_end.h. */
#include "launch/sandbox_end.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "launch/connection.h"
#include "launch/freeze.h"
#include "launch/leftover.h"
#include "launch/log.h"
#include "launch/relays.h"
#include "launch/remains.h"
#include "launch/spares.h"
#include "launch/stillness.h"
#include "launch/worker.h"

/* A group whose last process was reaped a moment ago may still be busy: first tries come quickly. */
enum { GROUP_RETRY_MS = 2 };

static void answer_start(struct launcher *launcher, struct sandbox *sandbox) {
  for (struct connection *at = launcher->connections; at != NULL;) {
    struct connection *next = at->next;
    if (at->start_wait == sandbox->instance) connection_fault(launcher, at, &sandbox->fault);
    at = next;
  }
}

static void answer_ends(struct launcher *launcher, uint64_t instance) {
  for (struct connection *at = launcher->connections; at != NULL;) {
    struct connection *next = at->next;
    if (at->ended_wait == instance) connection_ok(launcher, at);
    at = next;
  }
}

void sandbox_close_start(struct sandbox *sandbox) {
  source_close(&sandbox->control);
  close_fd(&sandbox->supply_fd);
  source_close(&sandbox->guest);
}

void sandbox_settle(struct launcher *launcher, struct sandbox *sandbox) {
  if (sandbox->starter != 0 || sandbox->supplier != 0 || sandbox->pid != 0 || relays_run(sandbox)) return;
  if (sandbox->overlay_pid != 0) {
    kill(sandbox->overlay_pid, SIGKILL); /* Writes nothing back: the files of the upper are the state. */
    return;
  }
  /* Not ours to reap where it ended before the starter whose child it is at first. */
  if (sandbox->gate_pid != 0 && kill(sandbox->gate_pid, SIGKILL) == 0) return;
  if (launcher->cgroups.version != 0 && cgroup_remove(&launcher->cgroups, sandbox->group) != 0) {
    cgroup_kill(&launcher->cgroups, sandbox->group);
    sandbox->deadline_ms = now_ms() + GROUP_RETRY_MS;
    return;
  }
  sandbox_close_start(sandbox);
  relays_end(launcher, sandbox); /* No source of the loop stays in what is freed below. */
  if (sandbox->mounts_fd >= 0) {
    remains_keep(take_fd(&sandbox->mounts_fd), take_fd(&sandbox->upper_mount_fd));
  }
  close_fd(&sandbox->upper_mount_fd);
  leftover_forget(launcher->sockets_fd, sandbox->instance);
  char name[48];
  snprintf(name, sizeof name, "%llu.sock", (unsigned long long)sandbox->instance);
  (void)unlinkat(launcher->sockets_fd, name, 0);
  for (struct sandbox **at = &launcher->sandboxes; *at != NULL; at = &(*at)->next) {
    if (*at != sandbox) continue;
    *at = sandbox->next;
    break;
  }
  if (sandbox->fault.code != NULL) answer_start(launcher, sandbox);
  else sandbox_announce(launcher, sandbox, "ended");
  answer_ends(launcher, sandbox->instance);
  free(sandbox);
}

void sandbox_end(struct launcher *launcher, struct sandbox *sandbox) {
  if (sandbox->state <= SANDBOX_STARTING && sandbox->fault.code == NULL) {
    errno = 0;
    fault_set(&sandbox->fault, "launch_failed", "sandbox \"%s\" was stopped while it started", sandbox->name);
  }
  sandbox->state = SANDBOX_ENDING;
  sandbox->deadline_ms = 0;
  relays_end(launcher, sandbox);
  bool is_still = sandbox->is_frozen || sandbox->still_walker != 0;
  freeze_yield(launcher, sandbox);
  if (is_still) (void)sandbox_thaw(launcher, sandbox, &(struct fault){0});
  if (sandbox->ends_for_good && sandbox->pid != 0 && sandbox->overlay_pid == 0 && sandbox->mounts_fd < 0) {
    sandbox->mounts_fd = remains_take(sandbox->pid);
  }
  if (sandbox->pid != 0) kill(sandbox->pid, SIGKILL);
  if (sandbox->starter != 0) kill(sandbox->starter, SIGKILL);
  if (sandbox->supplier != 0) kill(sandbox->supplier, SIGKILL);
  if (launcher->cgroups.version != 0) cgroup_kill(&launcher->cgroups, sandbox->group);
  sandbox_settle(launcher, sandbox);
}

/* Nobody came who removes a tree. */
static void end_remains(struct launcher *launcher) {
  pid_t pid = fork();
  if (pid == 0) {
    remains_hold();
    child_forget(launcher, -1);
    _exit(0);
  }
  if (pid > 0 && !worker_adopt(launcher, pid)) log_line("child %d ends what sandboxes left mounted", pid);
  remains_let_go();
}

int64_t sandboxes_expire(struct launcher *launcher) {
  int64_t now = now_ms();
  if (remains_due_ms() != 0 && remains_due_ms() <= now) end_remains(launcher);
  int64_t next = remains_due_ms();
  for (struct sandbox *sandbox = launcher->sandboxes; sandbox != NULL;) {
    struct sandbox *following = sandbox->next;
    if (sandbox->deadline_ms != 0 && sandbox->deadline_ms <= now) {
      if (sandbox->state == SANDBOX_SPARE) {
        errno = ETIMEDOUT;
        fault_set(&sandbox->fault, "launch_failed", "it was not whole in time");
        spares_failed(launcher, &sandbox->fault);
        sandbox_end(launcher, sandbox);
      } else if (sandbox->state == SANDBOX_STARTING) {
        errno = ETIMEDOUT;
        fault_set(&sandbox->fault, "launch_failed", "PID 1 of sandbox \"%s\" did not answer", sandbox->name);
        sandbox_end(launcher, sandbox);
      } else {
        sandbox_settle(launcher, sandbox);
      }
      /* Either may have freed it; what is next is looked up anew with the shortest wait. */
      next = now + GROUP_RETRY_MS;
    } else if (sandbox->deadline_ms != 0 && (next == 0 || sandbox->deadline_ms < next)) {
      next = sandbox->deadline_ms;
    }
    sandbox = following;
  }
  return next;
}
