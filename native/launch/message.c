/* One message over a Unix socket, with descriptors along: see message.h. */
#include "launch/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
  struct cmsghdr header; /* for its alignment */
  char bytes[CMSG_SPACE(sizeof(int) * MESSAGE_DESCRIPTORS_MAX)];
};

static int send_message(int socket, struct iovec vector, const int *descriptors, unsigned count, int flags) {
  union control control = {0};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  if (count > 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = (__typeof__(message.msg_controllen))CMSG_SPACE(sizeof(int) * count);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = (__typeof__(control.header.cmsg_len))CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(&control.header), descriptors, sizeof(int) * count);
  }
  for (;;) {
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
    if (sent == (ssize_t)vector.iov_len) return 0;
    if (sent < 0 && errno == EINTR) continue;
    if (sent >= 0) errno = EIO;
    return -1;
  }
}

static struct iovec vector_of(const void *bytes, size_t length) {
  union {
    const void *from;
    void *base;
  } data = {.from = bytes}; /* sendmsg reads what it takes without const. */
  return (struct iovec){.iov_base = data.base, .iov_len = length};
}

int message_send(int socket, const void *bytes, size_t length, const int *descriptors, unsigned count) {
  return send_message(socket, vector_of(bytes, length), descriptors, count, 0);
}

int message_offer(int socket, const void *bytes, size_t length, const int *descriptors, unsigned count) {
  return send_message(socket, vector_of(bytes, length), descriptors, count, MSG_DONTWAIT);
}

ssize_t message_receive_some(int socket, void *bytes, size_t size, int *descriptors, unsigned max) {
  struct iovec vector = {.iov_base = bytes, .iov_len = size};
  union control control;
  struct msghdr message = {
      .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  for (unsigned i = 0; i < max; i++) descriptors[i] = -1;
  if (got < 0) return got;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return got;
  unsigned received = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  int all[MESSAGE_DESCRIPTORS_MAX];
  memcpy(all, CMSG_DATA(header), sizeof(int) * received);
  for (unsigned i = 0; i < received; i++) {
    if (i < max) descriptors[i] = all[i];
    else close(all[i]);
  }
  return got;
}

ssize_t message_receive_all(int socket, void *bytes, size_t size, int *descriptors, unsigned count) {
  int all[MESSAGE_DESCRIPTORS_MAX];
  ssize_t got = message_receive_some(socket, bytes, size, all, MESSAGE_DESCRIPTORS_MAX);
  unsigned received = 0;
  while (received < MESSAGE_DESCRIPTORS_MAX && all[received] >= 0) received++;
  for (unsigned i = 0; i < count; i++) descriptors[i] = received == count ? all[i] : -1;
  for (unsigned i = 0; i < received && received != count; i++) close(all[i]);
  return got;
}

ssize_t message_receive(int socket, void *bytes, size_t size, int *descriptor) {
  return message_receive_all(socket, bytes, size, descriptor, 1);
}
