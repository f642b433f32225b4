/*
 * The privileged helper's seat: see helper_seat.h. Only root can start a helper, so one that was killed whole comes from
 * outside (mend.c). Who may connect here is of the daemon's id and could do to the launcher what he likes in any case; a
 * helper that lives is not replaced all the same.
 */
#include "launch/helper_seat.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/log.h"

static void say(struct connection *watcher, const char *change) {
  uint8_t buffer[64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_EVENT);
  frame_text(&writer, FIELD_CHANGE, change);
  connection_send(watcher, &writer);
}

static void say_to_all(const struct launcher *launcher, const char *change) {
  for (struct connection *at = launcher->connections; at != NULL; at = at->next) {
    if (at->is_watching) say(at, change);
  }
}

void helper_seat_tell(const struct launcher *launcher, struct connection *watcher) {
  if (launcher->is_without_helper) say(watcher, "helper_gone");
}

/* It never sends here: its answers come by sockets of their own. */
static void helper_went(struct launcher *launcher, struct source *source) {
  source_leave(source);
  launcher->is_without_helper = true;
  log_line("the privileged helper is gone");
  say_to_all(launcher, "helper_gone");
}

int helper_seat_watch(struct launcher *launcher) {
  if (launcher->helper_fd < 0) return 0;
  launcher->helper_end = (struct source){.fd = launcher->helper_fd, .ready = helper_went};
  return source_add(launcher, &launcher->helper_end);
}

/* As its maker made it: requests are messages. */
static bool is_helper_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

void helper_seat_take(struct launcher *launcher, struct connection *connection) {
  struct fault fault = {0};
  errno = 0;
  if (!launcher->is_without_helper || !is_helper_socket(connection->descriptor)) {
    fault_set(&fault, "invalid_request", "%s", launcher->is_without_helper ? "that is no helper's socket"
                                                                           : "no helper is missing here");
    connection_fault(launcher, connection, &fault);
    return;
  }
  close(launcher->helper_fd);
  launcher->helper_fd = take_fd(&connection->descriptor);
  launcher->is_without_helper = false;
  if (helper_seat_watch(launcher) != 0) log_line("can't watch the privileged helper");
  log_line("another privileged helper is here");
  say_to_all(launcher, "helper_back");
  connection_ok(launcher, connection);
}
