/* Unix sockets by directory descriptor: see socket.h. */
#include "launch/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/descriptor.h"

static struct sockaddr_un address_at(int directory, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
  return address;
}

int socket_listen_at(int directory, const char *name, int backlog, int type_flags) {
  cleanup_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | type_flags, 0);
  if (fd < 0) return -1;
  if (unlinkat(directory, name, 0) != 0 && errno != ENOENT) return -1;
  struct sockaddr_un address = address_at(directory, name);
  /* The mask makes the file 0600 from its first moment; the launcher has one thread. */
  mode_t before = umask(0177);
  int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
  umask(before);
  if (bound != 0 || listen(fd, backlog) != 0) return -1;
  return take_fd(&fd);
}

static int connected(int directory, const char *name, int type_flags, int seconds) {
  const struct timeval patience = {.tv_sec = seconds}; /* 0: for ever */
  cleanup_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | type_flags, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) {
    return -1;
  }
  struct sockaddr_un address = address_at(directory, name);
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) return -1;
  return take_fd(&fd);
}

int socket_connect_at(int directory, const char *name) { return connected(directory, name, 0, 0); }

int socket_connect_within(int directory, const char *name, int seconds) { return connected(directory, name, 0, seconds); }

int socket_connect_now(int directory, const char *name) { return connected(directory, name, SOCK_NONBLOCK, 0); }
