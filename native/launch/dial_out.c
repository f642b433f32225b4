/* Dials are made: see dial_out.h. */
#include "launch/dial_out.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "common/clock.h"
#include "launch/dial.h"
#include "launch/egress.h"
#include "launch/relays.h"
#include "launch/socket.h"

enum {
  /* A peer that vanished without a word is found after a quiet minute and six unanswered questions: what a program
     sets on its own socket ends at the relay. */
  KEEPALIVE_IDLE_S = 60,
  KEEPALIVE_EVERY_S = 20,
  KEEPALIVE_PROBES = 6,
};

static void connected(struct launcher *launcher, struct source *source) {
  struct dial *dial = (struct dial *)(void *)((char *)source - offsetof(struct dial, source));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) {
    dial_end(launcher, dial, error);
    return;
  }
  source_leave(source);
  relays_hand(launcher, dial);
}

static void set(int fd, int level, int option, int value) { (void)setsockopt(fd, level, option, &value, sizeof value); }

static int socket_for(const struct dial_request *request) {
  int family = request->address_length == 4 ? AF_INET : AF_INET6;
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  /* Programs choose their own pauses; their bytes arrive here when they meant them to leave. */
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
  return fd;
}

static int begin_connect(int fd, const struct dial_request *request) {
  union {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
  } to = {.ip6 = {.sin6_family = AF_INET6, .sin6_port = htons(request->port)}};
  bool is_ip4 = request->address_length == 4;
  if (is_ip4) {
    to.ip4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(request->port)};
    memcpy(&to.ip4.sin_addr, request->address, 4);
  } else {
    memcpy(&to.ip6.sin6_addr, request->address, 16);
  }
  return connect(fd, &to.any, is_ip4 ? sizeof to.ip4 : sizeof to.ip6);
}

/* The relay that has this connection, where there is room for one more dial; else why not. */
static struct relay_seat *asker(struct launcher *launcher, const struct dial_request *request, int *error) {
  struct sandbox *sandbox = sandbox_by_instance(launcher, request->instance);
  struct relay_seat *relay = sandbox == NULL ? NULL : relays_with(sandbox, request->connection);
  *error = ESRCH;
  if (relay == NULL) return NULL;
  *error = EAGAIN;
  if (launcher->dial_count >= DIALS_MAX || sandbox->network.dial_count >= DIALS_OF_SANDBOX_MAX) return NULL;
  *error = 0;
  return relay;
}

static int open_dial(struct launcher *launcher, const struct dial_request *request, struct dial **dial) {
  int error;
  struct relay_seat *relay = asker(launcher, request, &error);
  if (relay == NULL) return error;
  cleanup_fd fd = socket_for(request);
  if (fd < 0) return errno;
  bool is_there = begin_connect(fd, request) == 0;
  if (!is_there && errno != EINPROGRESS) return errno;
  *dial = dial_new(launcher, relay, request->connection, fd);
  if (*dial == NULL) return ENOMEM;
  (void)take_fd(&fd);
  (*dial)->deadline_ms = now_ms() + request->timeout_ms;
  (*dial)->source.ready = connected;
  return 0;
}

static void dial_out(struct launcher *launcher, const struct dial_request *request) {
  struct dial *dial = NULL;
  int error = open_dial(launcher, request, &dial);
  if (error != 0) egress_say_dialed(launcher, request->instance, request->connection, error);
  else if (source_wait(launcher, &dial->source, EPOLLOUT) != 0) dial_end(launcher, dial, ENOMEM);
}

static int open_stream(struct launcher *launcher, const struct dial_request *request, struct dial **dial) {
  int error;
  struct relay_seat *relay = asker(launcher, request, &error);
  if (relay == NULL) return error;
  cleanup_fd fd = socket_connect_now(launcher->run_fd, "egress.sock");
  if (fd < 0) return errno;
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_RELAY_STREAM);
  frame_integer(&writer, FIELD_INSTANCE, request->instance);
  frame_integer(&writer, FIELD_CONNECTION, request->connection);
  size_t length = frame_finish(&writer);
  if (send(fd, buffer, length, MSG_NOSIGNAL) != (ssize_t)length) return ECONNRESET;
  *dial = dial_new(launcher, relay, request->connection, fd);
  if (*dial == NULL) return ENOMEM;
  (void)take_fd(&fd);
  (*dial)->deadline_ms = now_ms() + DIAL_MS_MAX;
  return 0;
}

static void stream_out(struct launcher *launcher, const struct dial_request *request) {
  struct dial *dial = NULL;
  int error = open_stream(launcher, request, &dial);
  if (error != 0) egress_say_dialed(launcher, request->instance, request->connection, error);
  else relays_hand(launcher, dial);
}

void dial_serve(struct launcher *launcher, const struct dial_request *request) {
  if (request->type == FRAME_DIAL_OUT) dial_out(launcher, request);
  else stream_out(launcher, request);
}
