/*
 * Netlink sockets handed out one by one: see native/launch/netlink_gate.h for why they are counted.
 *
 * Nothing of the caller counts but three numbers of its call: a socket is alive as long as an epoll of ours has it, which the
 * kernel keeps and which holds no socket open.
 */
#ifndef SQUASH_NETLINK_SHARE_H
#define SQUASH_NETLINK_SHARE_H
#include <linux/seccomp.h>

struct netlink_share {
  int listener;
  int proc;  /* /proc, where we are found as "self" */
  int epoll; /* for this alone */
  /* Makes the socket that is handed out: NULL where it is one of our own network namespace. */
  int (*open)(const struct seccomp_notif *call);
};

/* Answers a call of `socket`. Where there are too many it waits a moment for others to close theirs. */
void netlink_share_answer(const struct netlink_share *share, const struct seccomp_notif *call);

#endif
