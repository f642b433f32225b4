/* The machine's network: see network.h. */
#include "boot/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "boot/failure.h"
#include "common/netlink.h"

#define DEVICE "eth0"

static void add_up(struct netlink_batch *batch, unsigned device) {
  struct ifinfomsg link = {.ifi_index = (int)device, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  netlink_begin(batch, RTM_NEWLINK, NLM_F_ACK);
  netlink_header(batch, &link, sizeof link);
}

/* `a.b.c.d/length` */
static unsigned char parse_prefix(const char *text, struct in_addr *address) {
  char plain[INET_ADDRSTRLEN] = "", *end = NULL;
  const char *slash = strchr(text, '/');
  size_t length = slash == NULL ? sizeof plain : (size_t)(slash - text);
  if (length < sizeof plain) memcpy(plain, text, length);
  unsigned long prefix = slash == NULL ? 0 : strtoul(slash + 1, &end, 10);
  errno = EINVAL;
  if (inet_pton(AF_INET, plain, address) != 1 || end == NULL || *end != '\0' || prefix < 1 || prefix > 32) {
    boot_fail("squash.address is no address with its prefix");
  }
  return (unsigned char)prefix;
}

static void add_address(struct netlink_batch *batch, unsigned device, const char *text) {
  struct in_addr address;
  struct ifaddrmsg header = {.ifa_family = AF_INET, .ifa_prefixlen = parse_prefix(text, &address), .ifa_index = device};
  netlink_begin(batch, RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK);
  netlink_header(batch, &header, sizeof header);
  netlink_attribute(batch, IFA_LOCAL, &address, sizeof address);
  netlink_attribute(batch, IFA_ADDRESS, &address, sizeof address);
}

static void add_default_route(struct netlink_batch *batch, unsigned device, const char *text) {
  struct in_addr gateway;
  struct rtmsg route = {.rtm_family = AF_INET,
                        .rtm_table = RT_TABLE_MAIN,
                        .rtm_protocol = RTPROT_BOOT,
                        .rtm_scope = RT_SCOPE_UNIVERSE,
                        .rtm_type = RTN_UNICAST};
  errno = EINVAL;
  if (inet_pton(AF_INET, text, &gateway) != 1) boot_fail("squash.gateway is no address");
  netlink_begin(batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK);
  netlink_header(batch, &route, sizeof route);
  netlink_attribute(batch, RTA_OIF, &device, sizeof device);
  netlink_attribute(batch, RTA_GATEWAY, &gateway, sizeof gateway);
}

void network_set_up(const struct settings *settings) {
  struct netlink_batch batch = {.used = 0};
  add_up(&batch, if_nametoindex("lo"));
  if (settings->address[0] != '\0') {
    unsigned device = if_nametoindex(DEVICE);
    if (device == 0) boot_fail("find " DEVICE);
    add_up(&batch, device);
    add_address(&batch, device, settings->address);
    if (settings->gateway[0] != '\0') add_default_route(&batch, device, settings->gateway);
  }
  if (netlink_send(&batch, NETLINK_ROUTE) != 0) boot_fail("set up the network");
}
