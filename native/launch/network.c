/* A sandbox's interface, routes and listeners: see network.h. The rules are in network_rules.c. */
#include "launch/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/netlink.h"
#include "common/file.h"

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

enum {
  LOOPBACK = 1, /* the index of `lo` in every network namespace */
  /* Connections the relay did not accept yet: a program's burst fits, and the kernel caps it at 4,096. */
  BACKLOG = 4096,
  /* What a connection may hold in the kernel on the relay's side of `lo`, each way; the kernel doubles it. Nothing is
     far away on `lo`, so more would not be faster, and what a program sends while nobody reads costs no more. */
  BUFFER_BYTES = 262144,
};

static int loopback_up(void) {
  struct netlink_batch batch = {.used = 0};
  struct ifinfomsg link = {.ifi_index = LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  netlink_begin(&batch, RTM_NEWLINK, NLM_F_ACK);
  netlink_header(&batch, &link, sizeof link);
  return netlink_send(&batch, NETLINK_ROUTE);
}

/* `local default dev lo table local`: every address is one of this namespace's own. */
static void add_world(struct netlink_batch *batch, uint8_t family, const uint32_t *source) {
  const uint32_t device = LOOPBACK;
  struct rtmsg route = {.rtm_family = family,
                        .rtm_table = RT_TABLE_LOCAL,
                        .rtm_protocol = RTPROT_BOOT,
                        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                        .rtm_type = RTN_LOCAL};
  netlink_begin(batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK);
  netlink_header(batch, &route, sizeof route);
  netlink_attribute(batch, RTA_OIF, &device, sizeof device);
  if (source != NULL) netlink_attribute(batch, RTA_PREFSRC, source, sizeof *source);
}

static int world4_add(void) {
  struct netlink_batch batch = {.used = 0};
  const uint32_t own = htonl(NETWORK_OWN_ADDRESS);
  struct ifaddrmsg address = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = LOOPBACK};
  netlink_begin(&batch, RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK);
  netlink_header(&batch, &address, sizeof address);
  netlink_attribute(&batch, IFA_LOCAL, &own, sizeof own);
  netlink_attribute(&batch, IFA_ADDRESS, &own, sizeof own);
  add_world(&batch, AF_INET, &own);
  return netlink_send(&batch, NETLINK_ROUTE);
}

/* Hosts may have IPv6 switched off: then a sandbox has none, and nothing else changes. */
static bool world6_add(void) {
  struct netlink_batch batch = {.used = 0};
  add_world(&batch, AF_INET6, NULL);
  return netlink_send(&batch, NETLINK_ROUTE) == 0;
}

static int set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value); }

/* Transparent: may be given connections to, and answer from, addresses that are on no interface. */
static int bound(int family, int type) {
  cleanup_fd fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool is_ip4 = family == AF_INET;
  if (fd < 0) return -1;
  int transparent = is_ip4 ? set(fd, IPPROTO_IP, IP_TRANSPARENT, 1) : set(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1);
  if (transparent != 0 || (!is_ip4 && set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) != 0)) return -1;
  /* TCP arrives by TPROXY at one address; datagrams arrive at the address they were sent to, whichever. */
  bool is_tcp = type == SOCK_STREAM;
  union {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
  } address = {.ip4 = {.sin_family = AF_INET, .sin_port = htons(NETWORK_PORT)}};
  if (is_ip4 && is_tcp) address.ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!is_ip4) address.ip6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(NETWORK_PORT)};
  if (!is_ip4 && is_tcp) address.ip6.sin6_addr = in6addr_loopback;
  if (bind(fd, &address.any, is_ip4 ? sizeof address.ip4 : sizeof address.ip6) != 0) return -1;
  if (!is_tcp) {
    int tells = is_ip4 ? set(fd, IPPROTO_IP, IP_PKTINFO, 1) : set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    return tells == 0 ? take_fd(&fd) : -1;
  }
  /* Accepted connections inherit all three. */
  if (set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES) != 0 || set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES) != 0 ||
      set(fd, IPPROTO_TCP, TCP_NODELAY, 1) != 0 || listen(fd, BACKLOG) != 0) {
    return -1;
  }
  return take_fd(&fd);
}

static int listen_all(struct network *network, bool has_ip6) {
  static const struct {
    int family;
    int type;
  } kinds[LISTENERS_MAX] = {[LISTENER_TCP4] = {AF_INET, SOCK_STREAM},
                            [LISTENER_UDP4] = {AF_INET, SOCK_DGRAM},
                            [LISTENER_TCP6] = {AF_INET6, SOCK_STREAM},
                            [LISTENER_UDP6] = {AF_INET6, SOCK_DGRAM}};
  network->listener_count = has_ip6 ? LISTENERS_MAX : LISTENER_TCP6;
  for (unsigned i = 0; i < network->listener_count; i++) {
    network->listeners[i] = bound(kinds[i].family, kinds[i].type);
    if (network->listeners[i] < 0) return -1;
  }
  return 0;
}

static void go_without(struct network *network, const char *what) {
  snprintf(network->warning, sizeof network->warning, "the sandbox has no network but loopback: %s: %s", what,
           strerror(errno));
  for (unsigned i = 0; i < LISTENERS_MAX; i++) close_fd(&network->listeners[i]);
  network->listener_count = 0;
}

/* The host may have chosen one that paces (BBR), which on `lo` only costs: a third of the relay's work. This one paces
   nothing and is in every kernel. It holds for the relay's and the programs' ends; where it can't be set, all still works. */
static void congestion_control_set(void) {
  (void)text_file_write(AT_FDCWD, "/proc/sys/net/ipv4/tcp_congestion_control", "reno");
}

int network_set_up(struct network *network) {
  *network = (struct network){.listeners = {-1, -1, -1, -1}};
  if (loopback_up() != 0) return -1;
  congestion_control_set();
  bool has_ip6 = world6_add();
  /* The route of IPv4 comes last: without rules nothing must look reachable. That of IPv6 leads to nobody. */
  if (network_rules_set(has_ip6) != 0) go_without(network, "the kernel takes no packet rules (nf_tables, nft_tproxy)");
  else if (listen_all(network, has_ip6) != 0) go_without(network, "can't listen");
  else if (world4_add() != 0) go_without(network, "can't set routes");
  return 0;
}
