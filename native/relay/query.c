/*
 * DNS over UDP: datagrams to port 53 of any address, and their answers.
 *
 * Nothing is kept of a query: `peer` says where its answer goes, and comes back with it. The listener's port stands
 * in for 53 on both ways (launch/network_rules.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "relay/state.h"

enum { QUERIES_MAX = 64 }; /* of one listener in one round */

/* `peer` on the wire: which listener, the program's address and port, the address it asked; IPv4 in the first four. */
struct peer {
  uint8_t listener;
  uint8_t program[16];
  uint8_t port[2]; /* network order */
  uint8_t asked[16];
};
_Static_assert(sizeof(struct peer) == 35, "bytes only, without gaps");

union name {
  struct sockaddr any;
  struct sockaddr_in ip4;
  struct sockaddr_in6 ip6;
};

union ancillary {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Where the datagram was sent to. Returns false where it was the listener itself, or nothing is known. */
static bool asked_address(struct msghdr *message, struct peer *peer) {
  struct cmsghdr *header = CMSG_FIRSTHDR(message);
  if (header == NULL) return false;
  if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
    struct in_pktinfo info;
    memcpy(&info, CMSG_DATA(header), sizeof info);
    memcpy(peer->asked, &info.ipi_addr, 4);
    return peer->asked[0] != 127;
  }
  if (header->cmsg_level != IPPROTO_IPV6 || header->cmsg_type != IPV6_PKTINFO) return false;
  struct in6_pktinfo info;
  memcpy(&info, CMSG_DATA(header), sizeof info);
  memcpy(peer->asked, &info.ipi6_addr, 16);
  return !IN6_IS_ADDR_LOOPBACK(&info.ipi6_addr);
}

void query_ready(struct relay *relay, struct waiter *waiter, uint32_t events) {
  (void)events;
  uint8_t bytes[RELAY_QUERY_BYTES_MAX];
  for (int i = 0; i < QUERIES_MAX && !relay->is_paused; i++) {
    union name from;
    union ancillary ancillary;
    struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof from,
                             .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = ancillary.bytes,
                             .msg_controllen = sizeof ancillary.bytes};
    ssize_t got = recvmsg(waiter->fd, &message, MSG_DONTWAIT);
    if (got < 0) return;
    struct peer peer = {.listener = (uint8_t)(waiter - relay->listeners)};
    relay->busy_ms = relay_now_ms();
    if ((message.msg_flags & MSG_TRUNC) != 0 || !asked_address(&message, &peer)) continue;
    bool is_ip4 = from.any.sa_family == AF_INET;
    if (is_ip4) memcpy(peer.program, &from.ip4.sin_addr, 4);
    else memcpy(peer.program, &from.ip6.sin6_addr, 16);
    memcpy(peer.port, is_ip4 ? &from.ip4.sin_port : &from.ip6.sin6_port, 2);
    control_say_query(relay, (const uint8_t *)&peer, sizeof peer, bytes, (size_t)got);
  }
}

static void ancillary_set(struct msghdr *message, union ancillary *ancillary, const struct peer *peer, bool is_ip4) {
  struct in_pktinfo info4 = {0};
  struct in6_pktinfo info6 = {0};
  memcpy(&info4.ipi_spec_dst, peer->asked, 4);
  memcpy(&info6.ipi6_addr, peer->asked, 16);
  size_t length = is_ip4 ? sizeof info4 : sizeof info6;
  *ancillary = (union ancillary){.header = {.cmsg_level = is_ip4 ? IPPROTO_IP : IPPROTO_IPV6,
                                            .cmsg_type = is_ip4 ? IP_PKTINFO : IPV6_PKTINFO}};
  ancillary->header.cmsg_len = (__typeof__(ancillary->header.cmsg_len))CMSG_LEN(length);
  memcpy(CMSG_DATA(&ancillary->header), is_ip4 ? (void *)&info4 : (void *)&info6, length);
  message->msg_control = ancillary->bytes;
  message->msg_controllen = (__typeof__(message->msg_controllen))CMSG_SPACE(length);
}

void query_answer(struct relay *relay, const uint8_t *peer_bytes, size_t peer_length, const uint8_t *answer,
                  size_t length) {
  struct peer peer;
  if (peer_length != sizeof peer) return;
  memcpy(&peer, peer_bytes, sizeof peer);
  if (peer.listener >= RELAY_LISTENERS_MAX || peer.listener % 2 == 0) return;
  int fd = relay->listeners[peer.listener].fd;
  if (fd < 0) return;
  bool is_ip4 = peer.listener < 2;
  union name to = {.ip6 = {.sin6_family = AF_INET6}};
  if (is_ip4) {
    to.ip4 = (struct sockaddr_in){.sin_family = AF_INET};
    memcpy(&to.ip4.sin_addr, peer.program, 4);
    memcpy(&to.ip4.sin_port, peer.port, 2);
  } else {
    memcpy(&to.ip6.sin6_addr, peer.program, 16);
    memcpy(&to.ip6.sin6_port, peer.port, 2);
  }
  union {
    const void *from;
    void *base;
  } data = {.from = answer}; /* sendmsg reads what it takes without const. */
  union ancillary ancillary;
  struct iovec vector = {.iov_base = data.base, .iov_len = length};
  struct msghdr message = {
      .msg_name = &to, .msg_namelen = is_ip4 ? sizeof to.ip4 : sizeof to.ip6, .msg_iov = &vector, .msg_iovlen = 1};
  ancillary_set(&message, &ancillary, &peer, is_ip4);
  relay->busy_ms = relay_now_ms();
  (void)sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL); /* A datagram may get lost. */
}
