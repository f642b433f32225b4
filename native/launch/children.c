/* Reaping, and children nobody knows: see children.h. */
#include "launch/children.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "launch/freeze.h"
#include "launch/log.h"
#include "launch/relays.h"
#include "launch/sandbox.h"
#include "launch/sandbox_end.h"
#include "launch/sandbox_start.h"
#include "launch/spares.h"
#include "launch/worker.h"

static bool is_known(const struct launcher *launcher, pid_t pid) {
  for (const struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->starter == pid || at->supplier == pid || at->pid == pid || at->overlay_pid == pid || at->gate_pid == pid || at->freezer == pid) {
      return true;
    }
  }
  return relays_have(launcher, pid) || worker_is_known(launcher, pid);
}

static bool is_ours(pid_t pid) {
  char path[64];
  char text[512];
  pid_t parent;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (text_file_read(AT_FDCWD, path, text, sizeof text) < 0) return false;
  /* The name in parentheses may hold anything; it is short. */
  const char *behind = strrchr(text, ')');
  return behind != NULL && sscanf(behind, ") %*c %d", &parent) == 1 && parent == getpid();
}

void children_visit(struct launcher *launcher, void (*visit)(struct launcher *launcher, pid_t pid)) {
  char path[64];
  pid_t pid;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *list = fopen(path, "re"); /* Of any length: thousands of sandboxes may stand in it. */
  if (list == NULL) return;
  while (fscanf(list, "%d", &pid) == 1) {
    /* Only we reap our children, so the id can't have been given to somebody else. */
    if (pid > 1 && is_ours(pid)) visit(launcher, pid);
  }
  fclose(list);
}

static void orphan_kill(struct launcher *launcher, pid_t pid) {
  if (!is_known(launcher, pid)) kill(pid, SIGKILL);
}

/* Kills those that belong to no sandbox and no worker. */
static void orphans_kill(struct launcher *launcher) {
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) sandbox_start_hear(launcher, at);
  children_visit(launcher, orphan_kill);
}

static void starter_ended(struct launcher *launcher, struct sandbox *sandbox, int status) {
  sandbox_start_hear(launcher, sandbox);
  sandbox->starter = 0;
  if (sandbox->was_known) {
    if (sandbox->state == SANDBOX_ENDING) sandbox_settle(launcher, sandbox);
    return; /* Its work is done. */
  }
  if (sandbox->state <= SANDBOX_STARTING) sandbox_start_failed(launcher, sandbox, status);
  orphans_kill(launcher); /* Killed between the fork of the first process and the word of it: that is ours now. */
  sandbox_settle(launcher, sandbox);
}

static void first_process_ended(struct launcher *launcher, struct sandbox *sandbox, int status) {
  sandbox_start_hear(launcher, sandbox);
  sandbox->pid = 0;
  if (sandbox->instance != SPARE_INSTANCE) {
    log_line("sandbox %s instance %llu ended, status 0x%x", sandbox->name, (unsigned long long)sandbox->instance,
             (unsigned)status);
  }
  if (sandbox->state <= SANDBOX_STARTING) sandbox_start_failed(launcher, sandbox, status);
  if (sandbox->state != SANDBOX_ENDING) sandbox_end(launcher, sandbox);
  else sandbox_settle(launcher, sandbox);
}

/* Returns whether it was one of a sandbox. */
static bool sandbox_child_ended(struct launcher *launcher, pid_t pid, int status) {
  for (struct sandbox *sandbox = launcher->sandboxes; sandbox != NULL; sandbox = sandbox->next) {
    if (sandbox->starter == pid) {
      starter_ended(launcher, sandbox, status);
      return true;
    }
    if (sandbox->supplier == pid) {
      sandbox->supplier = 0; /* Whoever waits for what it had to bring hears that nothing comes. */
      if (sandbox->state == SANDBOX_ENDING) sandbox_settle(launcher, sandbox);
      return true;
    }
    if (sandbox->pid == pid) {
      first_process_ended(launcher, sandbox, status);
      return true;
    }
    if (sandbox->gate_pid == pid) {
      sandbox->gate_pid = 0;
      if (sandbox->state == SANDBOX_ENDING) sandbox_settle(launcher, sandbox);
      return true;
    }
    if (sandbox->freezer == pid) {
      freeze_child_ended(launcher, sandbox, status);
      return true;
    }
    if (relays_ended(launcher, sandbox, pid, status)) {
      if (sandbox->state == SANDBOX_ENDING) sandbox_settle(launcher, sandbox);
      return true;
    }
    if (sandbox->overlay_pid == pid) {
      sandbox->overlay_pid = 0;
      if (sandbox->state != SANDBOX_ENDING) sandbox_end(launcher, sandbox); /* Its root is gone. */
      else sandbox_settle(launcher, sandbox);
      return true;
    }
  }
  return false;
}

void children_reap(struct launcher *launcher) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (sandbox_child_ended(launcher, pid, status)) continue;
    if (worker_is_known(launcher, pid)) {
      worker_child_ended(launcher, pid, status);
      continue;
    }
    /* Who it is may have been said and not been heard yet. */
    for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) sandbox_start_hear(launcher, at);
    (void)sandbox_child_ended(launcher, pid, status);
  }
}
