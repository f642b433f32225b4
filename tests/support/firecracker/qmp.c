/* See qmp.h. */
#include "qmp.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fault.h"

enum { LINE_BYTES_MAX = 65536, CONNECTS_MAX = 12000, CONNECT_US = 5000, ANSWER_SECONDS_MAX = 120 };

static int connection = -1;
static char line[LINE_BYTES_MAX];

static bool read_line(void) {
  for (size_t used = 0; used + 1 < sizeof line;) {
    ssize_t got = recv(connection, line + used, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    if (line[used] == '\n') {
      line[used] = '\0';
      line[strcspn(line, "\r")] = '\0';
      return true;
    }
    used++;
  }
  return false;
}

static bool begins(const char *with) { return strncmp(line, with, strlen(with)) == 0; }

const char *qmp_ask(const char *request) {
  if (send(connection, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) return "QEMU hears nothing";
  do {
    if (!read_line()) return "QEMU does not answer";
    if (begins("{\"error\"")) return fault_of("QEMU: %s", line);
  } while (!begins("{\"return\""));
  return NULL;
}

const char *qmp_answer(void) { return line; }

const char *qmp_open(const char *path, pid_t process) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const struct timeval patience = {.tv_sec = ANSWER_SECONDS_MAX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  for (int tries = 0; connect(connection, (struct sockaddr *)&address, sizeof address) != 0; tries++) {
    if (tries == CONNECTS_MAX || kill(process, 0) != 0) return "QEMU does not start";
    (void)usleep(CONNECT_US);
  }
  if (!read_line() || !begins("{\"QMP\"")) return "QEMU does not greet";
  return qmp_ask("{\"execute\":\"qmp_capabilities\"}");
}
