/* The two processes by which a command has jobs: see jobs.h. */
#include "init/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/pid_one.h"

/* A copy of who calls. The command may have PID 1's memory, whose other threads run on: nothing of the C library's own takes part. */
static pid_t copy(unsigned long flags) { return (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0); }

static _Noreturn void stand_in_group(pid_t command, pid_t keeper) {
  /* Dies with the keeper: PID 1 must not have to look for it. */
  bool is_kept = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == keeper && setpgid(0, command) == 0;
  close_from(0); /* With it the command goes on. */
  while (is_kept) (void)pause();
  _exit(0);
}

/* Until the command ends. It holds neither the terminal nor anything that it does not need of what PID 1 is. */
static _Noreturn void keep(pid_t command) {
  sigset_t all;
  sigfillset(&all);
  (void)sigprocmask(SIG_SETMASK, &all, NULL);
  (void)prctl(PR_SET_NAME, "squash-jobs");
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, command, 0), .events = POLLIN};
  bool is_fine = end.fd >= 0 && prctl(PR_SET_DUMPABLE, 0) == 0 && pid_one_disarm() == 0 && setpgid(0, 0) == 0;
  if (!is_fine) _exit(1);
  pid_t keeper = getpid(), member = copy(0);
  if (member == 0) stand_in_group(command, keeper);
  if (member < 0 || dup2(end.fd, 0) < 0) _exit(1);
  close_from(1);
  end.fd = 0;
  while (poll(&end, 1, -1) < 0 && errno == EINTR) continue;
  _exit(0);
}

void jobs_begin(void) {
  pid_t command = getpid();
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return;
  pid_t keeper = copy(CLONE_PARENT);
  if (keeper == 0) keep(command);
  (void)close(ready[1]);
  /* Its end: the member is in the group, or there is none. */
  char nothing;
  while (keeper > 0 && read(ready[0], &nothing, 1) < 0 && errno == EINTR) continue;
  (void)close(ready[0]);
}
