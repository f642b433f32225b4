/*
 * squash-init: PID 1 of a sandbox.
 *
 *   squash-init --listen-fd N      N is a listening socket, Unix or vsock; descriptors but 0, 1, 2 and N are closed
 *     --no-set-id                  and its commands make no set-uid files (set_id.h)
 *     --own-filters                and they may load filters of system calls
 *     --guest                      it is PID 1 of a microVM's guest (machine.h)
 *     --trace-paths                and it notes which paths its commands are refused (trace.h)
 *
 * It stands inside the boundary: root in the sandbox may replace it, so the daemon believes nothing it says. What
 * it must get right is everything a command's user relies on: exact bytes, exact exits, no orphan left unreaped.
 *
 * As an ordinary process (tests) it makes itself the reaper of its descendants and ends them all on SIGTERM. As
 * PID 1 it needs neither: the kernel gives it all orphans, and ends everything when it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/listener.h"
#include "common/pid_one.h"
#include "common/reaper.h"
#include "common/set_id.h"
#include "init/connection.h"
#include "init/dial.h"
#include "init/exec.h"
#include "init/exec_connection.h"
#include "init/first_frame.h"
#include "init/machine.h"
#include "init/renew.h"
#include "init/thrash.h"
#include "init/trace.h"
#include "init/version.h"
#include "init/worker.h"

static const struct connection_ports ports = {.first_frame = first_frame_serve,
                                              .exec_receive = exec_connection_receive,
                                              .exec_compose = exec_connection_compose,
                                              .worker_lost_client = worker_lost_client,
                                              .dial_ready = dial_ready};

static void child_ended(pid_t pid, int wait_status, const struct rusage *usage) {
  if (!exec_child_ended(pid, wait_status, usage)) (void)worker_child_ended(pid); /* Else an orphan's end. */
}

/* Of two times of which one below 0 never comes. */
static int sooner(int one, int other) {
  if (one < 0 || other < 0) return one < 0 ? other : one;
  return one < other ? one : other;
}

static int turn_timeout_ms(void) {
  if (reaper_is_due()) return 0;
  return sooner(sooner(exec_next_deadline_ms(), listener_pause_ms()), thrash_next_look_ms());
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
    if (strcmp(argv[i], "--guest") == 0) {
      machine_begin();
      continue;
    }
    if (strcmp(argv[i], "--trace-paths") == 0) {
      trace_want();
      continue;
    }
    if (strcmp(argv[i], "--listen-fd") != 0 || i + 1 == argc) return -1;
    fd = pid_one_listen_descriptor(argv[++i]);
    if (fd < 0) return -1;
  }
  return fd;
}

int main(int argc, char **argv) {
  int listen_fd = listen_descriptor(argc, argv);
  if (listen_fd < 0) {
    (void)fputs("usage: squash-init --listen-fd N (a listening socket, N above 2) [--no-set-id] [--own-filters] [--trace-paths] [--guest] | --version\n", stderr);
    return 2;
  }
  if (pid_one_clean(listen_fd, machine_is() ? MACHINE_END : 4) != 0 || loop_start() != 0 || exec_start_all(&exec_connection_client) != 0 ||
      reaper_start() != 0 || machine_confine() != 0 || renew_prepare() != 0 || connections_start(3, &ports) != 0 || pid_one_confine() != 0) {
    (void)fprintf(stderr, "squash-init: start: %s\n", strerror(errno));
    return 1;
  }
  reaper_tell_stops(exec_child_stopped);
  while (!reaper_stop_is_due()) {
    loop_turn(turn_timeout_ms());
    if (reaper_is_due() && reaper_turn(child_ended)) exec_check_groups();
    exec_check_deadlines();
    thrash_look();
  }
  pid_one_end_descendants();
  return 0;
}
