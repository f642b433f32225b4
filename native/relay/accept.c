/* New connections of the sandbox's programs. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay/state.h"

enum {
  /* Of one listener in one round, so that a flood leaves room for the connections there are. */
  ACCEPTS_MAX = 64,
  /* Descriptors or memory were used up. */
  AGAIN_MS = 100,
};

union name {
  struct sockaddr any;
  struct sockaddr_in ip4;
  struct sockaddr_in6 ip6;
};

static void refuse(int fd) {
  struct linger hard = {.l_onoff = 1};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  (void)close(fd);
}

/* Where the program connected to is the accepted socket's own address. Straight to the listener is nowhere. */
static bool is_outward(const union name *name) {
  if (name->any.sa_family == AF_INET) return ntohl(name->ip4.sin_addr.s_addr) >> 24 != 127;
  return name->any.sa_family == AF_INET6 && !IN6_IS_ADDR_LOOPBACK(&name->ip6.sin6_addr) &&
         !IN6_IS_ADDR_V4MAPPED(&name->ip6.sin6_addr);
}

static void add(struct relay *relay, int fd) {
  union name name;
  socklen_t length = sizeof name;
  relay->busy_ms = relay_now_ms();
  if (getsockname(fd, &name.any, &length) != 0 || !is_outward(&name) ||
      relay->connection_count >= relay->plan.connections_max) {
    refuse(fd);
    return;
  }
  struct connection *connection = connection_add(relay, fd);
  if (connection == NULL) {
    refuse(fd);
    return;
  }
  buffers_limit(relay, fd);
  bool is_ip4 = name.any.sa_family == AF_INET;
  connection->port = ntohs(is_ip4 ? name.ip4.sin_port : name.ip6.sin6_port);
  connection->address_length = is_ip4 ? 4 : 16;
  if (is_ip4) memcpy(connection->address, &name.ip4.sin_addr, 4);
  else memcpy(connection->address, &name.ip6.sin6_addr, 16);
  control_say_open(relay, connection);
  if (relay->plan.is_last || relay->connection_count < relay->plan.connections_max) return;
  relay->is_full = true;
  relay_listen(relay);
  relay_tell(relay, RELAY_FULL);
}

void accept_ready(struct relay *relay, struct waiter *waiter, uint32_t events) {
  (void)events;
  for (int i = 0; i < ACCEPTS_MAX && !relay->is_paused && !relay->is_full; i++) {
    int fd = accept4(waiter->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add(relay, fd);
      continue;
    }
    if (errno == EAGAIN) return;
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) continue;
    relay->accept_again_ms = relay_now_ms() + AGAIN_MS;
    relay_listen(relay);
    return;
  }
}
