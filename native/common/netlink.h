/*
 * Netlink messages in fixed room, sent in one go: the way to routes and packet rules without any program.
 *
 * A message is begun, gets attributes, and ends where the next begins. Past the room nothing is written and
 * `overflowed` says so; it is checked once, when the batch is sent.
 */
#ifndef SQUASH_NETLINK_H
#define SQUASH_NETLINK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All rules of a sandbox take about 2,600 bytes. */
enum { NETLINK_BATCH_BYTES = 6144 };

struct netlink_batch {
  _Alignas(8) uint8_t bytes[NETLINK_BATCH_BYTES];
  size_t used;
  size_t message; /* where the open message begins */
  uint32_t sequence;
  unsigned expected; /* acknowledgments asked for */
  bool overflowed;
};

/* `flags` beside NLM_F_REQUEST; an acknowledgment is asked for by NLM_F_ACK among them. */
void netlink_begin(struct netlink_batch *batch, unsigned type, unsigned flags);
/* The fixed header of the message's kind, behind netlink's own. */
void netlink_header(struct netlink_batch *batch, const void *header, size_t length);
void netlink_attribute(struct netlink_batch *batch, unsigned type, const void *value, size_t length);
void netlink_text(struct netlink_batch *batch, unsigned type, const char *text);
/* nf_tables keeps numbers in network order. */
void netlink_be32(struct netlink_batch *batch, unsigned type, uint32_t value);
/* Returns what netlink_nest_end takes. */
size_t netlink_nest(struct netlink_batch *batch, unsigned type);
void netlink_nest_end(struct netlink_batch *batch, size_t nest);

/* Sends all and reads every acknowledgment. Returns 0, or -1 with the first refusal's errno. */
int netlink_send(struct netlink_batch *batch, int protocol);

#endif
