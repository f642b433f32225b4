/* The tap of a VMM's guest: see network.h. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/netlink.h"
#include "launch/network.h"

/* It stays when this descriptor is closed, and is there for who opens the device as the sandbox's root. Returns its index, 0: there is none. */
static unsigned make(const char *device) {
  struct ifreq wish = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  memcpy(wish.ifr_name, NETWORK_TAP, sizeof NETWORK_TAP);
  cleanup_fd tap = open(device, O_RDWR | O_CLOEXEC);
  if (tap < 0 || ioctl(tap, TUNSETIFF, &wish) != 0 || ioctl(tap, TUNSETOWNER, 0) != 0 || ioctl(tap, TUNSETPERSIST, 1) != 0) return 0;
  cleanup_fd any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return any < 0 || ioctl(any, SIOCGIFINDEX, &wish) != 0 ? 0 : (unsigned)wish.ifr_ifindex;
}

/* In the table of what is local, whose longest match is first: else the guest's address would be this namespace's own, as all others. */
static int lead_to_guest(unsigned device) {
  const uint32_t guest = htonl(NETWORK_GUEST_ADDRESS), own = htonl(NETWORK_OWN_ADDRESS);
  struct netlink_batch batch = {.used = 0};
  struct ifinfomsg link = {.ifi_index = (int)device, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  struct rtmsg route = {.rtm_family = AF_INET,
                        .rtm_dst_len = 32,
                        .rtm_table = RT_TABLE_LOCAL,
                        .rtm_protocol = RTPROT_BOOT,
                        .rtm_scope = RT_SCOPE_LINK,
                        .rtm_type = RTN_UNICAST};
  netlink_begin(&batch, RTM_NEWLINK, NLM_F_ACK);
  netlink_header(&batch, &link, sizeof link);
  netlink_begin(&batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK);
  netlink_header(&batch, &route, sizeof route);
  netlink_attribute(&batch, RTA_DST, &guest, sizeof guest);
  netlink_attribute(&batch, RTA_OIF, &device, sizeof device);
  netlink_attribute(&batch, RTA_PREFSRC, &own, sizeof own);
  return netlink_send(&batch, NETLINK_ROUTE);
}

int network_tap_make(const char *device, struct fault *fault) {
  unsigned index = make(device);
  if (index == 0) return fault_set(fault, "launch_failed", "can't make a tap for the VMM (/dev/net/tun)");
  /* Before the link is up. */
  if (network_rules_set_tap() == 0 && lead_to_guest(index) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't set the rules and routes of the VMM's tap");
}
