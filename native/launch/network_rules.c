/*
 * The packet rules of a sandbox's namespace, as nf_tables messages.
 *
 * Written for the `nft` program:
 *
 *   table inet squash {
 *     chain in { type filter hook prerouting priority mangle; policy accept;
 *       ip daddr != { 127.0.0.0/8, 198.18.0.2 } meta l4proto tcp tproxy ip to 127.0.0.1:65533
 *       ip6 daddr != ::1 meta l4proto tcp tproxy ip6 to [::1]:65533
 *     }
 *     chain out { type filter hook output priority filter; policy drop;
 *       meta l4proto tcp accept
 *       udp sport 65533 udp sport set 53 accept
 *       ip daddr { 127.0.0.0/8, 198.18.0.2 } accept; ip6 daddr ::1 accept
 *       udp dport 53 udp dport set 65533 accept
 *     }
 *   }
 *
 * and where a VMM has a tap, before `in`, with the guest's address:
 *
 *     chain tap { type filter hook prerouting priority mangle - 1; policy drop;
 *       iifname lo accept
 *       ip saddr 198.18.0.3 meta l4proto tcp accept
 *       ip saddr 198.18.0.3 udp dport 53 udp dport set 65533 accept
 *     }
 *
 * All packets of programs pass both chains, because all of them go over `lo`. What is dropped on its way out fails at once in the
 * program (EPERM), so that a client of QUIC or STUN gives up without waiting.
 */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "common/netlink.h"
#include "launch/network.h"

#define TABLE "squash"
enum {
  MANGLE = -150, /* NF_IP_PRI_MANGLE: where TPROXY has to be */
  /* Offsets in the headers. */
  IP4_SOURCE = 12,
  IP4_DESTINATION = 16,
  IP6_DESTINATION = 24,
  UDP_SOURCE_PORT = 0,
  UDP_DESTINATION_PORT = 2,
  UDP_CHECKSUM = 6,
};

static void begin(struct netlink_batch *batch, unsigned type, unsigned flags) {
  bool is_mark = type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END;
  struct nfgenmsg header = {.nfgen_family = is_mark ? AF_UNSPEC : NFPROTO_INET,
                            .version = NFNETLINK_V0,
                            .res_id = is_mark ? htons(NFNL_SUBSYS_NFTABLES) : 0};
  netlink_begin(batch, is_mark ? type : (unsigned)NFNL_SUBSYS_NFTABLES << 8 | type, flags);
  netlink_header(batch, &header, sizeof header);
}

struct expression {
  size_t element;
  size_t data;
};

static struct expression expression(struct netlink_batch *batch, const char *name) {
  struct expression nests = {.element = netlink_nest(batch, NFTA_LIST_ELEM)};
  netlink_text(batch, NFTA_EXPR_NAME, name);
  nests.data = netlink_nest(batch, NFTA_EXPR_DATA);
  return nests;
}

static void end(struct netlink_batch *batch, struct expression nests) {
  netlink_nest_end(batch, nests.data);
  netlink_nest_end(batch, nests.element);
}

static void compare(struct netlink_batch *batch, unsigned operation, const void *value, size_t length) {
  struct expression nests = expression(batch, "cmp");
  netlink_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
  netlink_be32(batch, NFTA_CMP_OP, operation);
  size_t data = netlink_nest(batch, NFTA_CMP_DATA);
  netlink_attribute(batch, NFTA_DATA_VALUE, value, length);
  netlink_nest_end(batch, data);
  end(batch, nests);
}

static void when_meta(struct netlink_batch *batch, unsigned key, uint8_t value) {
  struct expression nests = expression(batch, "meta");
  netlink_be32(batch, NFTA_META_DREG, NFT_REG_1);
  netlink_be32(batch, NFTA_META_KEY, key);
  end(batch, nests);
  compare(batch, NFT_CMP_EQ, &value, sizeof value);
}

static void load(struct netlink_batch *batch, unsigned base, uint32_t offset, size_t length) {
  struct expression nests = expression(batch, "payload");
  netlink_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
  netlink_be32(batch, NFTA_PAYLOAD_BASE, base);
  netlink_be32(batch, NFTA_PAYLOAD_OFFSET, offset);
  netlink_be32(batch, NFTA_PAYLOAD_LEN, (uint32_t)length);
  end(batch, nests);
}

static void put(struct netlink_batch *batch, unsigned target, const void *value, size_t length) {
  struct expression nests = expression(batch, "immediate");
  netlink_be32(batch, NFTA_IMMEDIATE_DREG, target);
  size_t data = netlink_nest(batch, NFTA_IMMEDIATE_DATA);
  netlink_attribute(batch, NFTA_DATA_VALUE, value, length);
  netlink_nest_end(batch, data);
  end(batch, nests);
}

static void accept_packet(struct netlink_batch *batch) {
  struct expression nests = expression(batch, "immediate");
  netlink_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
  size_t data = netlink_nest(batch, NFTA_IMMEDIATE_DATA);
  size_t verdict = netlink_nest(batch, NFTA_DATA_VERDICT);
  netlink_be32(batch, NFTA_VERDICT_CODE, NF_ACCEPT);
  netlink_nest_end(batch, verdict);
  netlink_nest_end(batch, data);
  end(batch, nests);
}

/* In a UDP header; the checksum is kept right. */
static void set_port(struct netlink_batch *batch, uint32_t offset, uint16_t port) {
  uint16_t value = htons(port);
  put(batch, NFT_REG_1, &value, sizeof value);
  struct expression nests = expression(batch, "payload");
  netlink_be32(batch, NFTA_PAYLOAD_SREG, NFT_REG_1);
  netlink_be32(batch, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
  netlink_be32(batch, NFTA_PAYLOAD_OFFSET, offset);
  netlink_be32(batch, NFTA_PAYLOAD_LEN, sizeof value);
  netlink_be32(batch, NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
  netlink_be32(batch, NFTA_PAYLOAD_CSUM_OFFSET, UDP_CHECKSUM);
  end(batch, nests);
}

static void when_port(struct netlink_batch *batch, uint32_t offset, uint16_t port) {
  uint16_t value = htons(port);
  load(batch, NFT_PAYLOAD_TRANSPORT_HEADER, offset, sizeof value);
  compare(batch, NFT_CMP_EQ, &value, sizeof value);
}

static void deliver(struct netlink_batch *batch, uint8_t family, const void *address, size_t length) {
  uint16_t port = htons(NETWORK_PORT);
  put(batch, NFT_REG_1, address, length);
  put(batch, NFT_REG_2, &port, sizeof port);
  struct expression nests = expression(batch, "tproxy");
  netlink_be32(batch, NFTA_TPROXY_FAMILY, family);
  netlink_be32(batch, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
  netlink_be32(batch, NFTA_TPROXY_REG_PORT, NFT_REG_2);
  end(batch, nests);
}

static const uint8_t loopback_net = 127;
static const uint8_t loopback4[4] = {127, 0, 0, 1};
static const uint8_t loopback6[16] = {[15] = 1};

static void when_ip4(struct netlink_batch *batch, unsigned operation, const void *address, size_t length) {
  load(batch, NFT_PAYLOAD_NETWORK_HEADER, IP4_DESTINATION, length);
  compare(batch, operation, address, length);
}

static void when_ip6(struct netlink_batch *batch, unsigned operation) {
  load(batch, NFT_PAYLOAD_NETWORK_HEADER, IP6_DESTINATION, sizeof loopback6);
  compare(batch, operation, loopback6, sizeof loopback6);
}

static size_t rule(struct netlink_batch *batch, const char *chain) {
  begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
  netlink_text(batch, NFTA_RULE_TABLE, TABLE);
  netlink_text(batch, NFTA_RULE_CHAIN, chain);
  return netlink_nest(batch, NFTA_RULE_EXPRESSIONS);
}

static void chain(struct netlink_batch *batch, const char *name, unsigned hook, int32_t priority, uint32_t policy) {
  begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK);
  netlink_text(batch, NFTA_CHAIN_TABLE, TABLE);
  netlink_text(batch, NFTA_CHAIN_NAME, name);
  size_t nest = netlink_nest(batch, NFTA_CHAIN_HOOK);
  netlink_be32(batch, NFTA_HOOK_HOOKNUM, hook);
  netlink_be32(batch, NFTA_HOOK_PRIORITY, (uint32_t)priority);
  netlink_nest_end(batch, nest);
  netlink_be32(batch, NFTA_CHAIN_POLICY, policy);
  netlink_text(batch, NFTA_CHAIN_TYPE, "filter");
}

static void add_in(struct netlink_batch *batch, bool has_ip6) {
  uint32_t own = htonl(NETWORK_OWN_ADDRESS);
  chain(batch, "in", NF_INET_PRE_ROUTING, MANGLE, NF_ACCEPT);
  size_t nest = rule(batch, "in");
  when_meta(batch, NFT_META_L4PROTO, IPPROTO_TCP);
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV4);
  when_ip4(batch, NFT_CMP_NEQ, &loopback_net, sizeof loopback_net);
  when_ip4(batch, NFT_CMP_NEQ, &own, sizeof own);
  deliver(batch, NFPROTO_IPV4, loopback4, sizeof loopback4);
  netlink_nest_end(batch, nest);
  if (!has_ip6) return;
  nest = rule(batch, "in");
  when_meta(batch, NFT_META_L4PROTO, IPPROTO_TCP);
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV6);
  when_ip6(batch, NFT_CMP_NEQ);
  deliver(batch, NFPROTO_IPV6, loopback6, sizeof loopback6);
  netlink_nest_end(batch, nest);
}

static void add_out(struct netlink_batch *batch) {
  uint32_t own = htonl(NETWORK_OWN_ADDRESS);
  chain(batch, "out", NF_INET_LOCAL_OUT, 0, NF_DROP);
  size_t nest = rule(batch, "out");
  when_meta(batch, NFT_META_L4PROTO, IPPROTO_TCP);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
  nest = rule(batch, "out"); /* Before what is local: answers go to local addresses. */
  when_meta(batch, NFT_META_L4PROTO, IPPROTO_UDP);
  when_port(batch, UDP_SOURCE_PORT, NETWORK_PORT);
  set_port(batch, UDP_SOURCE_PORT, NETWORK_DNS_PORT);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
  nest = rule(batch, "out");
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV4);
  when_ip4(batch, NFT_CMP_EQ, &loopback_net, sizeof loopback_net);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
  nest = rule(batch, "out");
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV4);
  when_ip4(batch, NFT_CMP_EQ, &own, sizeof own);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
  nest = rule(batch, "out");
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV6);
  when_ip6(batch, NFT_CMP_EQ);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
  nest = rule(batch, "out");
  when_meta(batch, NFT_META_L4PROTO, IPPROTO_UDP);
  when_port(batch, UDP_DESTINATION_PORT, NETWORK_DNS_PORT);
  set_port(batch, UDP_DESTINATION_PORT, NETWORK_PORT);
  accept_packet(batch);
  netlink_nest_end(batch, nest);
}

int network_rules_set(bool has_ip6) {
  struct netlink_batch batch = {.used = 0};
  begin(&batch, NFNL_MSG_BATCH_BEGIN, 0);
  begin(&batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK);
  netlink_text(&batch, NFTA_TABLE_NAME, TABLE);
  add_in(&batch, has_ip6);
  add_out(&batch);
  begin(&batch, NFNL_MSG_BATCH_END, 0);
  return netlink_send(&batch, NETLINK_NETFILTER);
}

static void when_lo(struct netlink_batch *batch) {
  static const char lo[16] = "lo"; /* IFNAMSIZ: compared whole. */
  struct expression nests = expression(batch, "meta");
  netlink_be32(batch, NFTA_META_DREG, NFT_REG_1);
  netlink_be32(batch, NFTA_META_KEY, NFT_META_IIFNAME);
  end(batch, nests);
  compare(batch, NFT_CMP_EQ, lo, sizeof lo);
}

static size_t rule_of_guest(struct netlink_batch *batch, uint8_t protocol) {
  const uint32_t guest = htonl(NETWORK_GUEST_ADDRESS);
  size_t nest = rule(batch, "tap");
  when_meta(batch, NFT_META_L4PROTO, protocol);
  when_meta(batch, NFT_META_NFPROTO, NFPROTO_IPV4);
  load(batch, NFT_PAYLOAD_NETWORK_HEADER, IP4_SOURCE, sizeof guest);
  compare(batch, NFT_CMP_EQ, &guest, sizeof guest);
  return nest;
}

int network_rules_set_tap(void) {
  struct netlink_batch batch = {.used = 0};
  begin(&batch, NFNL_MSG_BATCH_BEGIN, 0);
  chain(&batch, "tap", NF_INET_PRE_ROUTING, MANGLE - 1, NF_DROP);
  size_t nest = rule(&batch, "tap");
  when_lo(&batch);
  accept_packet(&batch);
  netlink_nest_end(&batch, nest);
  nest = rule_of_guest(&batch, IPPROTO_TCP);
  accept_packet(&batch);
  netlink_nest_end(&batch, nest);
  nest = rule_of_guest(&batch, IPPROTO_UDP);
  when_port(&batch, UDP_DESTINATION_PORT, NETWORK_DNS_PORT);
  set_port(&batch, UDP_DESTINATION_PORT, NETWORK_PORT);
  accept_packet(&batch);
  netlink_nest_end(&batch, nest);
  begin(&batch, NFNL_MSG_BATCH_END, 0);
  return netlink_send(&batch, NETLINK_NETFILTER);
}
