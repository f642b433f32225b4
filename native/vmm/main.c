/*
 * squash-vmm: PID 1 of a sandbox whose one program is a virtual machine's monitor.
 *
 *   squash-vmm --listen-fd N      N is a listening Unix socket; descriptors but 0, 1, 2 and N are closed
 *     --no-set-id                 and what serves files to the guest makes no set-uid files (set_id.h)
 *
 * It starts the VMM and what belongs to it, and hands connections on to the guest, where squash-init is PID 1. It stands inside the
 * boundary of the sandbox as squash-init does: who breaks out of the guest into the VMM has its id and may replace it, so the
 * daemon believes nothing it says. It and its commands have no capability at all, and no process of its own id may look into it. It ends when a command that was to stay has ended, and with it
 * the sandbox.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/listener.h"
#include "common/pid_one.h"
#include "common/reaper.h"
#include "common/set_id.h"
#include "vmm/commands.h"
#include "vmm/connection.h"
#include "vmm/console.h"
#include "vmm/disk.h"
#include "vmm/link.h"
#include "vmm/tsc.h"
#include "vmm/version.h"

static char path_variable[] = "PATH=/usr/bin:/usr/sbin";
static char *environment[] = {path_variable, NULL};

static void answer_info(struct connection *connection) {
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
  frame_integer(&writer, FIELD_PROTOCOL, PROTOCOL_VERSION);
  frame_integer(&writer, FIELD_RUNNING, commands_running());
  frame_integer(&writer, FIELD_PID, (uint64_t)getpid());
  connection_answer(connection, &writer);
}

static void first_frame(struct connection *connection, uint8_t *payload, size_t length) {
  switch (connection->header.type) {
    case FRAME_VMM_START: commands_request(connection, payload, length); return;
    case FRAME_VMM_GUEST: link_request_guest(connection, payload, length); return;
    case FRAME_VMM_CONTROL: link_request_control(connection, payload, length); return;
    case FRAME_VMM_DEVICE: link_request_device(connection, payload, length); return;
    case FRAME_VMM_MEMORY: link_request_memory(connection, payload, length); return;
    case FRAME_VMM_DISK: disk_request(connection, payload, length); return;
    case FRAME_VMM_TAKEN: disk_request_taken(connection, payload, length); return;
    case FRAME_VMM_CONSOLE: console_request(connection, payload, length); return;
    case FRAME_INFO:
      if (length == 0) {
        answer_info(connection);
        return;
      }
      break;
    default: break;
  }
  connection_refuse(connection, "bad_request", 0, "a connection can't begin with this frame");
}

static void closing(struct connection *connection) {
  if (connection->kind == CONNECTION_LINK) link_closing(connection);
  if (connection->kind == CONNECTION_STARTING) commands_lost_client(connection);
}

static const struct connection_ports ports = {
    .first_frame = first_frame, .link_ready = link_ready, .console_ready = console_ready, .closing = closing};

static void child_ended(pid_t pid, int wait_status, const struct rusage *usage) {
  (void)usage;
  commands_child_ended(pid, wait_status);
}

static int sooner(int one_ms, int other_ms) {
  if (one_ms < 0 || other_ms < 0) return one_ms < 0 ? other_ms : one_ms;
  return one_ms < other_ms ? one_ms : other_ms;
}

static void run(void) {
  while (!reaper_stop_is_due() && !commands_are_over()) {
    int wait_ms = sooner(listener_pause_ms(), sooner(commands_turn(), links_turn()));
    loop_turn(reaper_is_due() ? 0 : wait_ms);
    if (reaper_is_due()) (void)reaper_turn(child_ended);
  }
  console_drain();
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    (void)puts("squash-vmm " SQUASH_VMM_VERSION);
    return 0;
  }
  if (argc == 4 && strcmp(argv[3], "--no-set-id") == 0) {
    set_id_refuse();
    set_id_lets_filter();
    argc = 3;
  }
  int listen_fd = argc == 3 && strcmp(argv[1], "--listen-fd") == 0 ? pid_one_listen_descriptor(argv[2]) : -1;
  if (listen_fd < 0) {
    (void)fputs("usage: squash-vmm --listen-fd N (a listening Unix socket, N above 2) [--no-set-id] | --version\n", stderr);
    return 2;
  }
  environ = environment;
  tsc_begin();
  if (pid_one_clean(listen_fd, 4) != 0 || loop_start() != 0 || reaper_start() != 0 || commands_prepare() != 0 ||
      connections_start(3, &ports) != 0 || pid_one_confine() != 0 || prctl(PR_SET_DUMPABLE, 0) != 0) {
    (void)fprintf(stderr, "squash-vmm: start: %s\n", strerror(errno));
    return 1;
  }
  run();
  pid_one_end_descendants();
  return 0;
}
