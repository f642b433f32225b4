/*
 * squash-init: PID 1 of a sandbox.
 *
 *   squash-init --listen-fd N      N is a listening socket, Unix or vsock; descriptors but 0, 1, 2 and N are closed
 *     --no-set-id                  and its commands make no set-uid files (set_id.h)
 *     --own-filters                and they may load filters of system calls
 *     --trace-paths                and it notes which paths its commands are refused (trace.h)
 *
 * It stands inside the boundary: root in the sandbox may replace it, so the daemon believes nothing it says. What
 * it must get right is everything a command's user relies on: exact bytes, exact exits, no orphan left unreaped.
 *
 * As an ordinary process (tests) it makes itself the reaper of its descendants and ends them all on SIGTERM. As
 * PID 1 it needs neither: the kernel gives it all orphans, and ends everything when it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/confine.h"
#include "init/connection.h"
#include "init/dial.h"
#include "init/exec.h"
#include "init/exec_connection.h"
#include "init/first_frame.h"
#include "init/set_id.h"
#include "init/trace.h"
#include "init/version.h"
#include "init/worker.h"

/* Children reaped per turn: a storm of orphans must not keep commands waiting. */
enum { REAPED_PER_TURN = 256 };

static const struct connection_ports ports = {.first_frame = first_frame_serve,
                                              .exec_receive = exec_connection_receive,
                                              .exec_compose = exec_connection_compose,
                                              .worker_lost_client = worker_lost_client,
                                              .dial_ready = dial_ready};

static struct watch signals;
static bool reap_is_due;
static bool stop_is_due;

static void signals_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  struct signalfd_siginfo info;
  while (read(signals.fd, &info, sizeof info) == (ssize_t)sizeof info) {
    if (info.ssi_signo == SIGCHLD) reap_is_due = true;
    else stop_is_due = true;
  }
}

static void reap(void) {
  reap_is_due = false;
  for (int i = 0; i < REAPED_PER_TURN; i++) {
    int wait_status;
    struct rusage usage;
    pid_t pid = wait4(-1, &wait_status, WNOHANG, &usage);
    if (pid <= 0) {
      exec_check_groups();
      return;
    }
    if (!exec_child_ended(pid, wait_status, &usage)) (void)worker_child_ended(pid); /* Else an orphan's end. */
  }
  reap_is_due = true;
}

static int start_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  if (getpid() != 1) {
    /* PID 1 must not wait for these: blocked, they would reach it from inside, where the kernel else drops them. */
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
  }
  int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return -1;
  sigaddset(&set, SIGPIPE); /* Stays pending and harmless; a handler or SIG_IGN would be inherited by commands. */
  if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) return -1;
  watch_start(&signals, fd, signals_ready, NULL);
  watch_for(&signals, EPOLLIN);
  return 0;
}

/* What is inherited from the launcher and would pass on to every command. */
static int clean_process(int listen_fd) {
  for (int fd = 0; fd < 3; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return -1;
  }
  if (listen_fd != 3) {
    if (dup2(listen_fd, 3) < 0) return -1;
  }
  close_from(4);
  for (int signo = 1; signo < NSIG; signo++) (void)signal(signo, SIG_DFL); /* Fails for KILL and STOP only. */
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  (void)umask(022);
  /* Too little for any core file; and of exactly 1 the kernel starts no handler where the host has one (core_pattern with a
     bar), which it does with 0. It fails where less is allowed already, and lowering is always allowed. */
  struct rlimit no_core = {1, 1};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* Without it fewer commands fit, and those past are refused. */
  }
  return getpid() == 1 ? 0 : prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int turn_timeout_ms(void) {
  if (reap_is_due) return 0;
  int deadline = exec_next_deadline_ms();
  int pause = connections_pause_ms();
  if (pause < 0) return deadline;
  return deadline < 0 || pause < deadline ? pause : deadline;
}

/* Ends all descendants: those that lose their parent become children of this process, the reaper. */
static void end_descendants(void) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  for (;;) {
    FILE *children = fopen(path, "re");
    if (children == NULL) return;
    int pid, found = 0;
    while (fscanf(children, "%d", &pid) == 1) {
      found++;
      (void)kill(pid, SIGKILL); /* An unreaped child: the number is its own. */
    }
    (void)fclose(children);
    if (found == 0) return;
    (void)waitpid(-1, NULL, 0);
  }
}

static int listen_descriptor(int argc, char **argv) {
  int fd = -1;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--version") == 0) {
      (void)puts("squash-init " SQUASH_INIT_VERSION);
      exit(0);
    }
    if (strcmp(argv[i], "--no-set-id") == 0) {
      set_id_refuse();
      continue;
    }
    if (strcmp(argv[i], "--own-filters") == 0) {
      set_id_lets_filter();
      continue;
    }
    if (strcmp(argv[i], "--trace-paths") == 0) {
      trace_want();
      continue;
    }
    if (strcmp(argv[i], "--listen-fd") != 0 || i + 1 == argc) return -1;
    char *end;
    long number = strtol(argv[++i], &end, 10);
    if (*end != '\0' || number < 3 || number > 1048576) return -1;
    fd = (int)number;
  }
  return fd;
}

int main(int argc, char **argv) {
  int listen_fd = listen_descriptor(argc, argv);
  if (listen_fd < 0) {
    (void)fputs("usage: squash-init --listen-fd N (a listening socket, N above 2) [--no-set-id] [--own-filters] [--trace-paths] | --version\n", stderr);
    return 2;
  }
  if (clean_process(listen_fd) != 0 || loop_start() != 0 || exec_start_all(&exec_connection_client) != 0 ||
      start_signals() != 0 || connections_start(3, &ports) != 0 || confine() != 0) {
    (void)fprintf(stderr, "squash-init: start: %s\n", strerror(errno));
    return 1;
  }
  while (!stop_is_due) {
    loop_turn(turn_timeout_ms());
    if (reap_is_due) reap();
    exec_check_deadlines();
  }
  end_descendants();
  return 0;
}
