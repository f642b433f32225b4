/* Signals and reaping: see reaper.h. */
#include "common/reaper.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/loop.h"
#include "common/pid_one.h"

/* A storm of orphans must not keep what runs waiting. */
enum { REAPED_PER_TURN = 256 };

static struct watch signals;
static bool reap_is_due;
static bool stop_is_due;
static void (*stopped)(pid_t pid);

static void signals_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  /* As many as there are kinds; one that comes behind them is there in the next turn. */
  struct signalfd_siginfo infos[3];
  ssize_t got = read(signals.fd, infos, sizeof infos);
  for (ssize_t i = 0; i < got / (ssize_t)sizeof infos[0]; i++) {
    if (infos[i].ssi_signo == SIGCHLD) reap_is_due = true;
    else stop_is_due = true;
  }
}

int reaper_start(void) {
  int fd = pid_one_signals();
  if (fd < 0) return -1;
  watch_start(&signals, fd, signals_ready, NULL);
  watch_for(&signals, EPOLLIN);
  return 0;
}

void reaper_tell_stops(void (*told)(pid_t pid)) { stopped = told; }

bool reaper_stop_is_due(void) { return stop_is_due; }

bool reaper_is_due(void) { return reap_is_due; }

bool reaper_turn(void (*ended)(pid_t pid, int wait_status, const struct rusage *usage)) {
  reap_is_due = false;
  int options = stopped == NULL ? WNOHANG : WNOHANG | WUNTRACED;
  for (int i = 0; i < REAPED_PER_TURN; i++) {
    int wait_status;
    struct rusage usage;
    pid_t pid = wait4(-1, &wait_status, options, &usage);
    if (pid <= 0) return true;
    if (WIFSTOPPED(wait_status)) stopped(pid);
    else ended(pid, wait_status, &usage);
  }
  reap_is_due = true;
  return false;
}
