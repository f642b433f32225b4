/* Netlink messages: see netlink.h. */
#include "common/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"

/* NLA_HDRLEN is an int. */
#define ATTRIBUTE_HEADER sizeof(struct nlattr)

/* Room for `length` bytes, zeroed up to the next boundary of four; NULL once anything did not fit. */
static uint8_t *take(struct netlink_batch *batch, size_t length) {
  size_t aligned = NLMSG_ALIGN(length);
  if (batch->overflowed || aligned > sizeof batch->bytes - batch->used) {
    batch->overflowed = true;
    return NULL;
  }
  uint8_t *at = batch->bytes + batch->used;
  memset(at, 0, aligned);
  batch->used += aligned;
  return at;
}

/* The lengths of the open message and of a nest are those of what was written since. */
static void close_message(struct netlink_batch *batch) {
  if (batch->overflowed || batch->used == batch->message) return;
  uint32_t length = (uint32_t)(batch->used - batch->message);
  memcpy(batch->bytes + batch->message + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof length);
}

void netlink_begin(struct netlink_batch *batch, unsigned type, unsigned flags) {
  close_message(batch);
  batch->message = batch->used;
  struct nlmsghdr header = {.nlmsg_type = (uint16_t)type,
                            .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                            .nlmsg_seq = ++batch->sequence};
  if ((flags & NLM_F_ACK) != 0) batch->expected++;
  netlink_header(batch, &header, sizeof header);
}

void netlink_header(struct netlink_batch *batch, const void *header, size_t length) {
  uint8_t *at = take(batch, length);
  if (at != NULL) memcpy(at, header, length);
}

void netlink_attribute(struct netlink_batch *batch, unsigned type, const void *value, size_t length) {
  struct nlattr header = {.nla_len = (uint16_t)(ATTRIBUTE_HEADER + length), .nla_type = (uint16_t)type};
  uint8_t *at = take(batch, ATTRIBUTE_HEADER + length);
  if (at == NULL) return;
  memcpy(at, &header, sizeof header);
  if (length > 0) memcpy(at + ATTRIBUTE_HEADER, value, length);
}

void netlink_text(struct netlink_batch *batch, unsigned type, const char *text) {
  netlink_attribute(batch, type, text, strlen(text) + 1);
}

void netlink_be32(struct netlink_batch *batch, unsigned type, uint32_t value) {
  uint32_t number = htonl(value);
  netlink_attribute(batch, type, &number, sizeof number);
}

size_t netlink_nest(struct netlink_batch *batch, unsigned type) {
  size_t nest = batch->used;
  netlink_attribute(batch, type | NLA_F_NESTED, NULL, 0);
  return nest;
}

void netlink_nest_end(struct netlink_batch *batch, size_t nest) {
  if (batch->overflowed) return;
  uint16_t length = (uint16_t)(batch->used - nest);
  memcpy(batch->bytes + nest, &length, sizeof length);
}

/* The kernel answers while it takes the messages, so everything is here already. */
static int read_answers(int fd, unsigned expected) {
  _Alignas(struct nlmsghdr) uint8_t bytes[8192];
  while (expected > 0) {
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
      if (got == 0) errno = EPIPE;
      return -1;
    }
    size_t left = (size_t)got;
    struct nlmsghdr header;
    for (const uint8_t *at = bytes; left >= sizeof header; at += NLMSG_ALIGN(header.nlmsg_len)) {
      int error;
      memcpy(&header, at, sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) break;
      left -= NLMSG_ALIGN(header.nlmsg_len) < left ? NLMSG_ALIGN(header.nlmsg_len) : left;
      if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_len < NLMSG_HDRLEN + sizeof error) continue;
      memcpy(&error, at + NLMSG_HDRLEN, sizeof error);
      if (error != 0) {
        errno = -error;
        return -1;
      }
      if (expected > 0) expected--;
    }
  }
  return 0;
}

int netlink_send(struct netlink_batch *batch, int protocol) {
  close_message(batch);
  if (batch->overflowed) {
    errno = EMSGSIZE;
    return -1;
  }
  cleanup_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return -1;
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  ssize_t sent = sendto(fd, batch->bytes, batch->used, 0, (const struct sockaddr *)&kernel, sizeof kernel);
  if (sent != (ssize_t)batch->used) return -1;
  return read_answers(fd, batch->expected);
}
