/* Reaping, and children nobody knows: see orphan.h. */
#include "launch/orphan.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/file.h"
#include "launch/relays.h"
#include "launch/sandbox.h"
#include "launch/worker.h"

static bool is_known(const struct launcher *launcher, pid_t pid) {
  for (const struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->starter == pid || at->pid == pid || at->overlay_pid == pid) return true;
  }
  return relays_have(launcher, pid) || worker_is_known(launcher, pid);
}

void orphans_kill(struct launcher *launcher) {
  char path[64];
  char text[8192];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  if (file_read(AT_FDCWD, path, text, sizeof text) < 0) return;
  char *rest = NULL;
  for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    pid_t pid = (pid_t)atol(word);
    /* Only we reap our children, so the id can't have been given to somebody else. */
    if (pid > 1 && !is_known(launcher, pid)) kill(pid, SIGKILL);
  }
}

void children_reap(struct launcher *launcher) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (!sandbox_child_ended(launcher, pid, status)) worker_child_ended(launcher, pid, status);
  }
}
