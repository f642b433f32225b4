/* Ports: see dial.h. */
#include "init/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/transfer.h"
#include "init/connection.h"
#include "init/request.h"

struct dial {
  struct connection *connection; /* NULL: free slot */
  struct watch tcp;
  bool is_connected;
  bool is_second_try;
  uint16_t port;
  struct transfer up;   /* daemon to port */
  struct transfer down; /* port to daemon */
};

static struct dial dials[GUEST_DIALS_MAX];
static unsigned used_slots;

static const uint8_t dial_fields[] = {FIELD_PORT, 0};

static void tcp_ready(void *owner, uint32_t events);

static struct dial *take_slot(void) {
  for (unsigned i = 0; i < used_slots; i++) {
    if (dials[i].connection == NULL) return &dials[i];
  }
  return used_slots < GUEST_DIALS_MAX ? &dials[used_slots++] : NULL;
}

static struct dial *dial_of(const struct connection *connection) {
  for (unsigned i = 0; i < used_slots; i++) {
    if (dials[i].connection == connection) return &dials[i];
  }
  return NULL;
}

/* Frees the slot; the connection goes back to its caller. */
static struct connection *release(struct dial *dial) {
  struct connection *connection = dial->connection;
  watch_close(&dial->tcp);
  transfer_forget(&dial->up);
  transfer_forget(&dial->down);
  memset(dial, 0, sizeof *dial);
  dial->tcp.fd = -1;
  return connection;
}

static int start_connect(struct dial *dial) {
  int family = dial->is_second_try ? AF_INET6 : AF_INET;
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* Only slower without. */
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(dial->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(dial->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int done = dial->is_second_try ? connect(fd, (struct sockaddr *)&six, sizeof six)
                                 : connect(fd, (struct sockaddr *)&four, sizeof four);
  if (done != 0 && errno != EINPROGRESS) {
    int failure = errno;
    (void)close(fd);
    return failure;
  }
  watch_start(&dial->tcp, fd, tcp_ready, dial);
  watch_for(&dial->tcp, EPOLLOUT);
  return 0;
}

/* A server may listen on ::1 only. What is reported is the first address's refusal. */
static void connect_failed(struct dial *dial, int failure) {
  watch_close(&dial->tcp);
  if (!dial->is_second_try) {
    dial->is_second_try = true;
    if (start_connect(dial) == 0) return;
  }
  connection_refuse(release(dial), "dial_failed", failure, "the port does not answer");
}

void dial_request(struct connection *connection, uint8_t *payload, size_t length) {
  uint64_t port = 0;
  const char *wrong = request_parse(dial_fields, payload, length);
  if (wrong == NULL && (!request_integer(FIELD_PORT, 1, 65535, &port) || port == 0)) wrong = "the port is out of range";
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  struct dial *dial = take_slot();
  if (dial == NULL) {
    connection_refuse(connection, "limit", EAGAIN, "too many dialled ports");
    return;
  }
  *dial = (struct dial){.connection = connection, .port = (uint16_t)port, .tcp = {.fd = -1}};
  connection->kind = CONNECTION_DIAL;
  connection_watch_hangup(connection);
  int failure = start_connect(dial);
  if (failure != 0) connect_failed(dial, failure);
}

/* --- joining ---------------------------------------------------------------------------------------------- */

/* False: it is over. */
static bool move(struct transfer *transfer, int from, int to) {
  enum transfer_outcome outcome = transfer_run(transfer, from, to);
  if (outcome == TRANSFER_ENDED) (void)shutdown(to, SHUT_WR); /* Fails only where the other side is gone, which its own event tells. */
  return outcome == TRANSFER_GOES_ON || outcome == TRANSFER_ENDED;
}

static bool is_done(const struct transfer *transfer) { return transfer->is_ended && transfer->kept == NULL; }

static void join(struct dial *dial) {
  int daemon = dial->connection->watch.fd;
  bool is_broken = !move(&dial->up, daemon, dial->tcp.fd) || !move(&dial->down, dial->tcp.fd, daemon);
  bool is_up_done = is_done(&dial->up), is_down_done = is_done(&dial->down);
  /* Where half an end does not arrive, a port that ends would be waited for without it. */
  bool is_over = connections_close_whole() ? is_up_done || is_down_done : is_up_done && is_down_done;
  if (is_broken || is_over) {
    connection_close(release(dial));
    return;
  }
  watch_for(&dial->connection->watch, transfer_interest(&dial->up, &dial->down));
  watch_for(&dial->tcp, transfer_interest(&dial->down, &dial->up));
}

static void tcp_ready(void *owner, uint32_t events) {
  (void)events;
  struct dial *dial = owner;
  if (dial->is_connected) {
    join(dial);
    return;
  }
  int failure = 0;
  socklen_t length = sizeof failure;
  if (getsockopt(dial->tcp.fd, SOL_SOCKET, SO_ERROR, &failure, &length) != 0) failure = errno;
  if (failure != 0) {
    connect_failed(dial, failure);
    return;
  }
  dial->is_connected = true;
  uint8_t ok[FRAME_HEADER_BYTES];
  frame_header_write(ok, FRAME_OK, 0);
  /* The first bytes on an empty socket: they fit, or the peer is gone. */
  if (send(dial->connection->watch.fd, ok, sizeof ok, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof ok) {
    connection_close(release(dial));
    return;
  }
  join(dial);
}

void dial_ready(struct connection *connection) {
  struct dial *dial = dial_of(connection);
  if (dial == NULL) return;
  if (dial->is_connected) join(dial);
  else connection_close(release(dial)); /* Only the hang-up is waited for while connecting. */
}
