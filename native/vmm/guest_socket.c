/* Through to the guest: see guest_socket.h. */
#include "vmm/guest_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/descriptor.h"

int socket_address(struct sockaddr_un *address, const char *path, const char *suffix) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  int length = snprintf(address->sun_path, sizeof address->sun_path, "%s%s", path, suffix);
  if (length > 0 && (size_t)length < sizeof address->sun_path) return 0;
  errno = ENAMETOOLONG;
  return -1;
}

int socket_reach(const char *path) {
  struct sockaddr_un address;
  cleanup_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || socket_address(&address, path, "") != 0) return -1;
  return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? take_fd(&fd) : -1;
}

int guest_ask(int fd, uint16_t port) {
  char request[32];
  int length = snprintf(request, sizeof request, "CONNECT %u\n", port);
  ssize_t put = send(fd, request, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put >= 0 && put != length) errno = EPIPE;
  return put == length ? 0 : -1;
}

/* Byte by byte: what is behind the line is the stream's. */
enum guest_answer guest_hear(int fd, struct guest_heard *heard) {
  for (;;) {
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return GUEST_IS_SILENT;
    if (got == 1 && byte == '\n' && heard->used >= 3 && memcmp(heard->text, "OK ", 3) == 0) return GUEST_IS_THERE;
    if (got != 1 || byte == '\n' || heard->used == GUEST_OK_BYTES_MAX) {
      if (got >= 0) errno = 0;
      return GUEST_REFUSES;
    }
    heard->text[heard->used++] = byte;
  }
}
