/* Handing out netlink sockets: see netlink_share.h. */
#include "common/netlink_share.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"

enum {
  /* Programs keep one or two, most for less than a millisecond. */
  SOCKETS_MAX = 32,
  /* Whoever asks while there are so many waits for others to close theirs, and then hears that there is no room. */
  FULL_POLL_MS = 5,
  FULL_POLLS = 20,
};

/* The C libraries do not agree on the type of an ioctl's number. */
static int notify(int listener, unsigned long command, void *value) {
  return (int)syscall(SYS_ioctl, listener, command, value);
}

/* How many of the sockets handed out are open: one line each. */
static unsigned open_sockets(const struct netlink_share *share) {
  char path[48];
  char text[8192];
  (void)snprintf(path, sizeof path, "self/fdinfo/%d", share->epoll);
  cleanup_fd file = openat(share->proc, path, O_RDONLY | O_CLOEXEC);
  size_t used = 0;
  for (ssize_t got = 1; file >= 0 && got > 0 && used < sizeof text - 1; used += (size_t)got) {
    got = read(file, text + used, sizeof text - 1 - used);
    if (got < 0) return SOCKETS_MAX;
  }
  if (file < 0 || used == sizeof text - 1) return SOCKETS_MAX;
  text[used] = '\0';
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, "tfd:")) != NULL; at++) count++;
  return count;
}

/* What hand_out says of a kernel before 5.14, which can't hand out a descriptor and answer in one: it is not bounded. */
enum { UNBOUNDED = -1 };

/* Gives the caller a socket of the wanted kind. Returns 0 where that answered the call, else the error to answer. */
static int hand_out(const struct netlink_share *share, const struct seccomp_notif *call) {
  for (int polls = 0; open_sockets(share) >= SOCKETS_MAX; polls++) {
    if (polls == FULL_POLLS) return ENOBUFS;
    (void)poll(NULL, 0, FULL_POLL_MS);
  }
  int type = (int)call->data.args[1];
  cleanup_fd own = share->open != NULL ? share->open(call) : socket(AF_NETLINK, type | SOCK_CLOEXEC, (int)call->data.args[2]);
  if (own < 0) return errno;
  struct epoll_event nothing = {.events = 0};
  if (epoll_ctl(share->epoll, EPOLL_CTL_ADD, own, &nothing) != 0) return ENOBUFS;
  struct seccomp_notif_addfd given = {.id = call->id,
                                      .flags = SECCOMP_ADDFD_FLAG_SEND,
                                      .srcfd = (uint32_t)own,
                                      .newfd_flags = (type & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0};
  if (notify(share->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given) >= 0) return 0;
  if (errno == ENOENT || errno == EINPROGRESS) return 0; /* The caller was interrupted and asks again. */
  return errno == EINVAL ? UNBOUNDED : errno;
}

void netlink_share_answer(const struct netlink_share *share, const struct seccomp_notif *call) {
  int number = hand_out(share, call);
  if (number == 0) return;
  struct seccomp_notif_resp answer = {.id = call->id, .error = -number};
  if (number == UNBOUNDED) {
    answer.error = 0;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  }
  (void)notify(share->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
