/*
 * Stopping all processes of a sandbox: see stillness.h.
 *
 * Without a freezer a child enters the sandbox's user and pid namespace and signals everything there. `kill(-1)`
 * reaches all processes at one instant: a fork in progress is either seen or starts over with the signal pending.
 * That each really stands still is read from a /proc of that namespace, mounted where only the child sees it.
 */
#include "launch/stillness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/syscalls.h"

enum { STOP_MS_MAX = 5000, STOP_TRIES_MAX = 3 };

/* Whether each process below the mounted /proc, but PID 1 and us, is stopped or dead. */
static bool all_stopped(const char *proc) {
  DIR *entries = opendir(proc);
  if (entries == NULL) return false;
  bool stopped = true;
  for (struct dirent *entry; stopped && (entry = readdir(entries)) != NULL;) {
    char path[320];
    char text[1024];
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "%s/stat", entry->d_name);
    if (text_file_read(dirfd(entries), path, text, sizeof text) < 0) continue; /* Ended meanwhile. */
    const char *state = strrchr(text, ')');
    if (state == NULL || strlen(state) < 3 || atol(text) == getpid()) continue;
    stopped = strchr("TtZX", state[2]) != NULL;
  }
  closedir(entries);
  return stopped;
}

/* Waits until all stand still, or the deadline; with none it does not wait. Returns 0, or why not as an errno. */
static int signal_inside(int number, int64_t deadline) {
  if (kill(-1, number) != 0 && errno != ESRCH) return errno;
  if (deadline == 0) return 0;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("proc", "/tmp", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) {
    return errno;
  }
  while (!all_stopped("/tmp")) {
    if (now_ms() > deadline) return ETIMEDOUT;
    sleep_ms(1);
    (void)kill(-1, number);
  }
  return 0;
}

/*
 * Root in the sandbox may signal whoever is in its pid namespace, the inner child too. One that was stopped is ended
 * and counts as failed: nobody may wait for it, least of all the launcher, which serves all other sandboxes.
 * Returns 0 or an errno.
 */
static int wait_inner(pid_t inner) {
  int status;
  for (;;) {
    if (waitpid(inner, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return EINTR;
    kill(inner, SIGKILL);
  }
}

/* Joining a pid namespace only counts for children, hence two forks. */
static int run_inside(pid_t first, int number, int64_t deadline) {
  pid_t outer = fork();
  if (outer == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    cleanup_fd pidfd = sys_pidfd_open(first);
    if (pidfd < 0 || setns(pidfd, CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(errno);
    pid_t inner = fork();
    if (inner == 0) _exit(signal_inside(number, deadline));
    _exit(inner > 0 ? wait_inner(inner) : errno);
  }
  if (outer < 0) return -1;
  int status = 1;
  while (waitpid(outer, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
  return status == 0 ? 0 : -1;
}

int stillness_signal(const struct sandbox *sandbox, int number) { return run_inside(sandbox->pid, number, 0); }

int stillness_set(const struct launcher *launcher, const struct sandbox *sandbox, bool is_still) {
  if (sandbox->pid == 0) return 0;
  /* A frozen fuse-overlayfs could not answer the reads that the others wait for, so they could not freeze. */
  if (launcher->cgroups.version != 0 && launcher->cgroups.has[CGROUP_FREEZER] && sandbox->overlay_pid == 0) {
    return cgroup_freeze(&launcher->cgroups, sandbox->group, is_still);
  }
  /* PID 1 takes a stop only from outside its namespace. It goes first and comes back last: it starts commands. */
  if (is_still) {
    if (kill(sandbox->pid, SIGSTOP) != 0) return -1;
    /* Ours inside is killed by whoever kills all, as the watchdog does. What it had stopped by then is stopped. */
    int64_t deadline = now_ms() + STOP_MS_MAX;
    for (int tries = 1; run_inside(sandbox->pid, SIGSTOP, deadline) != 0; tries++) {
      if (errno != EINTR || tries == STOP_TRIES_MAX) return -1;
    }
    return 0;
  }
  int result = run_inside(sandbox->pid, SIGCONT, 0);
  return kill(sandbox->pid, SIGCONT) == 0 ? result : -1;
}

int sandbox_thaw(const struct launcher *launcher, struct sandbox *sandbox, struct fault *fault) {
  if (stillness_set(launcher, sandbox, false) != 0) {
    return fault_set(fault, "launch_failed", "can't thaw sandbox \"%s\"", sandbox->name);
  }
  sandbox->is_frozen = false;
  return 0;
}

void stillness_end_group(pid_t leader) {
  siginfo_t ended;
  kill(-leader, SIGKILL);
  while (waitid(P_PID, (id_t)leader, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
}

void stillness_yield(struct sandbox *sandbox) {
  if (sandbox->still_walker != 0) stillness_end_group(sandbox->still_walker);
  sandbox->still_walker = 0;
}
