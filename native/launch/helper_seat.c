/*
 * The privileged helper's seat: see helper_seat.h. Only root can start a helper, so one that was killed whole comes from
 * outside (mend.c). Who may connect here is of the daemon's id and could do to the launcher what he likes in any case; a
 * helper that lives is not replaced all the same.
 *
 * One that lives and does not answer is ended from outside as well: the keeper finds the file `helper.hung`. The helper does one thing
 * after the other, and the answer to a look waits behind a file system that is made on a slow disk: so it counts as away
 * long before it is ended.
 */
#include "launch/helper_seat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "launch/helper.h"
#include "launch/log.h"

enum {
  /* A look that was not answered when the next is due is a silence: 5 to 10 s. */
  LOOK_MS = 5000,
};

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
  if (launcher->is_without_helper || launcher->helper_silences > 0) say(watcher, "helper_gone");
}

static void look_over(struct launcher *launcher) {
  if (launcher->helper_look.fd > 0) source_close(&launcher->helper_look);
  launcher->helper_look.fd = 0;
}

static void heard(struct launcher *launcher) {
  if (launcher->helper_silences == 0) return;
  launcher->helper_silences = 0;
  (void)unlinkat(launcher->data_fd, "helper.hung", 0);
  log_line("the privileged helper answers again");
  say_to_all(launcher, "helper_back");
}

/* It answered, or its child died with the question: the next look asks again. */
static void look_ready(struct launcher *launcher, struct source *source) {
  char byte;
  bool is_answered = recv(source->fd, &byte, 1, MSG_DONTWAIT) > 0;
  look_over(launcher);
  if (is_answered) heard(launcher);
}

/* False where it takes nothing more. That we have no descriptor to ask it with is not its silence. */
static bool look(struct launcher *launcher) {
  int fd = helper_look(launcher->helper_fd);
  if (fd < 0) return errno != EAGAIN;
  launcher->helper_look = (struct source){.fd = fd, .ready = look_ready};
  if (source_add(launcher, &launcher->helper_look) == 0) return true;
  close(fd);
  launcher->helper_look.fd = 0;
  return true;
}

static void silent(struct launcher *launcher) {
  if (launcher->helper_silences++ == 0) {
    log_line("the privileged helper does not answer");
    say_to_all(launcher, "helper_gone");
  }
  /* Again each time as long has passed: who was killed and sleeps in the kernel is gone when it wakes. */
  if (launcher->helper_silences % ((launcher->hung_ms + LOOK_MS - 1) / LOOK_MS) != 0) return;
  cleanup_fd file = openat(launcher->data_fd, "helper.hung", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) log_line("can't say that the privileged helper hangs: %s", strerror(errno));
}

int64_t helper_seat_run(struct launcher *launcher) {
  if (launcher->helper_fd < 0 || launcher->is_without_helper) return 0;
  int64_t now = now_ms();
  if (now < launcher->helper_look_ms) return launcher->helper_look_ms;
  if (launcher->helper_look_ms != 0 && launcher->helper_look.fd > 0) silent(launcher);
  if (launcher->helper_look.fd == 0 && !look(launcher)) silent(launcher);
  launcher->helper_look_ms = now + LOOK_MS;
  return launcher->helper_look_ms;
}

/* It never sends here: its answers come by sockets of their own. */
static void helper_went(struct launcher *launcher, struct source *source) {
  source_leave(source);
  look_over(launcher);
  launcher->helper_silences = 0;
  launcher->is_without_helper = true;
  log_line("the privileged helper is gone");
  say_to_all(launcher, "helper_gone");
}

int helper_seat_watch(struct launcher *launcher) {
  if (launcher->helper_fd < 0) return 0;
  (void)unlinkat(launcher->data_fd, "helper.hung", 0);
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
