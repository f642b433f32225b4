/* The relay's loop: see relay.h. */
#include "relay/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay/state.h"

enum {
  EVENTS_MAX = 128,
  /* While connections wait for an egress process that is away. */
  TICK_MS = 250,
};

/* The kernel could not install it: our descriptors are used up. */
static void descriptor_lost(struct relay *relay, const struct relay_message *message) {
  if (message->word == RELAY_CONTROL) {
    relay_tell(relay, RELAY_NEEDS_CONTROL);
    return;
  }
  struct connection *connection = connection_find(relay, message->connection);
  if (connection != NULL) connection_reset(relay, connection, REASON_OUR_RESET);
}

static void launcher_ready(struct relay *relay, struct waiter *waiter, uint32_t events) {
  (void)events;
  struct relay_message message;
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec vector = {.iov_base = &message, .iov_len = sizeof message};
  struct msghdr header = {
      .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t got = recvmsg(waiter->fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got != (ssize_t)sizeof message) {
    relay->is_over = true;
    return;
  }
  struct cmsghdr *first = CMSG_FIRSTHDR(&header);
  if (first == NULL || first->cmsg_type != SCM_RIGHTS || first->cmsg_len != CMSG_LEN(sizeof(int))) {
    descriptor_lost(relay, &message);
    return;
  }
  int fd;
  memcpy(&fd, CMSG_DATA(first), sizeof fd);
  if (message.word == RELAY_CONTROL) control_take(relay, fd);
  else connection_attach(relay, message.connection, fd);
}

/* What waited too long for an egress process that is away is refused. Nothing is ever let through instead. */
static void refuse_overdue(struct relay *relay) {
  int64_t latest = relay_now_ms() - relay->plan.hold_ms;
  if (relay->control.fd >= 0 || relay->lost_ms > latest || relay->undecided_count == 0) return;
  for (unsigned i = 0; i < RELAY_BUCKETS; i++) {
    for (struct connection *at = relay->buckets[i]; at != NULL;) {
      struct connection *next = at->next_in_bucket;
      if (!at->is_dead && !connection_is_decided(at) && at->since_ms <= latest) connection_reset(relay, at, REASON_OUR_RESET);
      at = next;
    }
  }
}

/* Milliseconds until something is due; -1 where nothing is. */
static int tick(struct relay *relay) {
  int64_t now = relay_now_ms();
  if (relay->accept_again_ms != 0 && relay->accept_again_ms <= now) relay->accept_again_ms = 0;
  refuse_overdue(relay);
  relay_listen(relay);
  if (relay->control.fd < 0 || relay->accept_again_ms != 0) return TICK_MS;
  if (relay->connection_count > 0) return -1;
  int64_t left = relay->busy_ms + relay->plan.idle_ms - now;
  return left < 0 ? 0 : (int)left;
}

static bool is_idle(const struct relay *relay) {
  return relay->connection_count == 0 && relay->out.head == relay->out.tail &&
         relay_now_ms() - relay->busy_ms >= relay->plan.idle_ms;
}

static const struct relay_ports ports = {
    .control_broke = control_lose, .pause_changed = control_pause_changed, .pipe_came = connection_watch};

static int begin(struct relay *relay, const struct relay_plan *plan) {
  relay->ports = &ports;
  relay->plan = *plan;
  relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  relay->in = malloc(FRAME_HEADER_BYTES + RELAY_COMMAND_BYTES_MAX);
  relay->last_id = plan->connection_base;
  relay->busy_ms = relay_now_ms();
  relay->lost_ms = relay->busy_ms;
  relay->control.fd = -1;
  relay->launcher = (struct waiter){.fd = plan->launcher_fd, .ready = launcher_ready};
  for (unsigned i = 0; i < RELAY_LISTENERS_MAX; i++) {
    relay->listeners[i] =
        (struct waiter){.fd = plan->listeners[i], .ready = i % 2 == 0 ? accept_ready : query_ready};
  }
  return relay->epoll_fd < 0 || relay->in == NULL ? -1 : waiter_set(relay, &relay->launcher, EPOLLIN);
}

static void end(struct relay *relay) {
  relay->is_over = true; /* Nobody is told any more. */
  for (unsigned i = 0; i < RELAY_BUCKETS; i++) {
    while (relay->buckets[i] != NULL) connection_reset(relay, relay->buckets[i], REASON_OUR_RESET);
  }
  connections_free_dead(relay);
  pipes_close(relay);
  waiter_close(relay, &relay->control);
  free(relay->out.bytes);
  free(relay->in);
  if (relay->epoll_fd >= 0) close(relay->epoll_fd);
  free(relay);
}

int relay_run(const struct relay_plan *plan) {
  struct relay *relay = calloc(1, sizeof *relay);
  if (relay == NULL) return 1;
  int result = begin(relay, plan);
  while (result == 0 && !relay->is_over) {
    struct epoll_event events[EVENTS_MAX];
    int timeout = tick(relay);
    if (is_idle(relay)) break;
    int count = epoll_wait(relay->epoll_fd, events, EVENTS_MAX, timeout);
    for (int i = 0; i < count && !relay->is_over; i++) {
      struct waiter *waiter = events[i].data.ptr;
      /* Closed by an earlier event of this round: the memory is still there. */
      if (waiter->fd >= 0) waiter->ready(relay, waiter, events[i].events);
    }
    control_flush(relay);
    connections_free_dead(relay);
  }
  result = result != 0 || relay->is_over ? 1 : 0;
  end(relay);
  return result;
}
