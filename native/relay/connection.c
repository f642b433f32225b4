/*
 * One connection of a program: announced, held or not, given an upstream, released, ended.
 *
 * What a newcomer would get wrong: a socket that both sides have shut down reports HUP for ever, wanted or not. Where
 * nothing can be done about it (its bytes wait for the other side), it is taken out of the loop until it is of use.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "relay/state.h"

struct connection *connection_find(struct relay *relay, uint64_t id) {
  struct connection *at = relay->buckets[id % RELAY_BUCKETS];
  while (at != NULL && at->id != id) at = at->next_in_bucket;
  return at;
}

bool connection_is_decided(const struct connection *connection) {
  return connection->is_released && connection->ends[END_UPSTREAM].fd >= 0;
}

static void enter(struct relay *relay, struct connection *connection) {
  connection->id = ++relay->last_id;
  connection->next_in_bucket = relay->buckets[connection->id % RELAY_BUCKETS];
  relay->buckets[connection->id % RELAY_BUCKETS] = connection;
}

static void leave(struct relay *relay, const struct connection *connection) {
  struct connection **at = &relay->buckets[connection->id % RELAY_BUCKETS];
  while (*at != connection) at = &(*at)->next_in_bucket;
  *at = connection->next_in_bucket;
}

void connection_renumber(struct relay *relay, struct connection *connection) {
  leave(relay, connection);
  enter(relay, connection);
}

/* The end of a connection; memory goes when the round of events is over. */
static void end(struct relay *relay, struct connection *connection, enum relay_reason reason) {
  if (!connection_is_decided(connection)) relay->undecided_count--;
  flow_drop(relay, &connection->flows[END_PROGRAM]);
  flow_drop(relay, &connection->flows[END_UPSTREAM]);
  waiter_close(relay, &connection->ends[END_PROGRAM]);
  waiter_close(relay, &connection->ends[END_UPSTREAM]);
  leave(relay, connection);
  connection->is_dead = true;
  connection->next_dead = relay->dead;
  relay->dead = connection;
  relay->connection_count--;
  if (relay->connection_count == 0) pipes_close(relay);
  if (relay->is_full && relay->connection_count < relay->plan.connections_max - relay->plan.connections_max / 8) {
    relay->is_full = false;
    relay_listen(relay);
  }
  relay->busy_ms = relay_now_ms();
  control_say_closed(relay, connection, reason);
}

void connections_free_dead(struct relay *relay) {
  while (relay->dead != NULL) {
    struct connection *connection = relay->dead;
    relay->dead = connection->next_dead;
    free(connection);
  }
}

void connection_reset(struct relay *relay, struct connection *connection, enum relay_reason reason) {
  struct linger hard = {.l_onoff = 1}; /* Closing sends a reset and drops what is unsent. */
  for (unsigned i = 0; i < ENDS; i++) {
    if (connection->ends[i].fd < 0) continue;
    (void)setsockopt(connection->ends[i].fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  end(relay, connection, reason);
}

void connection_watch(struct relay *relay, struct connection *connection) {
  for (unsigned name = 0; name < ENDS; name++) {
    struct waiter *waiter = &connection->ends[name];
    uint32_t interest = 0;
    if (waiter->fd < 0) continue;
    if (connection->flows[name].state == FLOW_READING) interest |= EPOLLIN;
    if (connection->flows[1 - name].state == FLOW_WRITING) interest |= EPOLLOUT;
    if (name == END_PROGRAM && connection->hold_bytes_max > 0 && !relay->is_paused) interest |= EPOLLIN | EPOLLRDHUP;
    if (waiter_set(relay, waiter, interest) == 0) continue;
    connection_reset(relay, connection, REASON_OUR_RESET); /* The kernel has no memory for the loop. */
    return;
  }
}

void connection_continue(struct relay *relay, struct flow *flow) {
  struct connection *connection = flow->connection;
  enum end_name broken;
  if (flow_move(relay, flow, &broken) != 0) {
    connection_reset(relay, connection, broken == END_PROGRAM ? REASON_PROGRAM_RESET : REASON_UPSTREAM_RESET);
  } else if (connection->flows[END_PROGRAM].state == FLOW_DONE && connection->flows[END_UPSTREAM].state == FLOW_DONE) {
    end(relay, connection, REASON_ENDED);
  } else {
    connection_watch(relay, connection);
  }
}

/* Sent bytes stay where they are, so that whoever gets the connection reads them as if nobody had looked. */
static void answer_hold(struct relay *relay, struct connection *connection, uint32_t events) {
  uint8_t bytes[RELAY_FIRST_BYTES_MAX];
  bool ended = (events & (EPOLLRDHUP | EPOLLHUP)) != 0;
  ssize_t got = recv(connection->ends[END_PROGRAM].fd, bytes, connection->hold_bytes_max, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && errno != EAGAIN && errno != EINTR) {
    connection_reset(relay, connection, REASON_PROGRAM_RESET);
    return;
  }
  size_t length = got < 0 ? 0 : (size_t)got;
  if (length <= connection->hold_offset && !ended && got != 0) return;
  connection->hold_bytes_max = 0;
  control_say_first(relay, connection, bytes, length, ended || got == 0);
}

static void end_ready(struct relay *relay, struct waiter *waiter, uint32_t events) {
  enum end_name name = waiter->slot;
  char *ends = (char *)(waiter - name);
  struct connection *connection = (struct connection *)(void *)(ends - offsetof(struct connection, ends));
  if (name == END_PROGRAM && connection->hold_bytes_max > 0 && !relay->is_paused) {
    answer_hold(relay, connection, events);
    if (connection->is_dead) return;
  }
  struct flow *from = &connection->flows[name];
  struct flow *to = &connection->flows[1 - name];
  bool is_source = (events & ~(uint32_t)EPOLLOUT) != 0;
  bool is_target = (events & ~(uint32_t)EPOLLIN) != 0;
  if (is_source && from->state == FLOW_READING) connection_continue(relay, from);
  if (is_target && !connection->is_dead && to->state == FLOW_WRITING) connection_continue(relay, to);
  if (connection->is_dead) return;
  bool is_read = from->state != FLOW_OFF && from->state != FLOW_DONE;
  if ((events & EPOLLERR) != 0 && !is_read) {
    connection_reset(relay, connection, name == END_PROGRAM ? REASON_PROGRAM_RESET : REASON_UPSTREAM_RESET);
    return;
  }
  connection_watch(relay, connection);
  if (connection->is_dead || (events & (EPOLLERR | EPOLLHUP)) == 0 || waiter->interest != 0) return;
  (void)epoll_ctl(relay->epoll_fd, EPOLL_CTL_DEL, waiter->fd, NULL);
  waiter->is_added = false;
}

struct connection *connection_add(struct relay *relay, int program_fd) {
  struct connection *connection = calloc(1, sizeof *connection);
  struct epoll_event event = {.events = 0};
  if (connection == NULL) return NULL;
  event.data.ptr = &connection->ends[END_PROGRAM];
  /* Without any interest resets are heard. */
  if (epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, program_fd, &event) != 0) {
    free(connection);
    return NULL;
  }
  connection->ends[END_PROGRAM] = (struct waiter){.fd = program_fd, .is_added = true, .ready = end_ready};
  connection->ends[END_UPSTREAM] = (struct waiter){.fd = -1, .slot = END_UPSTREAM, .ready = end_ready};
  connection->flows[END_PROGRAM].connection = connection;
  connection->flows[END_UPSTREAM].connection = connection;
  connection->since_ms = relay_now_ms();
  enter(relay, connection);
  relay->connection_count++;
  relay->undecided_count++;
  return connection;
}

static void count_decided(struct relay *relay, const struct connection *connection) {
  if (connection_is_decided(connection)) relay->undecided_count--;
}

void connection_attach(struct relay *relay, uint64_t id, int upstream_fd) {
  struct connection *connection = connection_find(relay, id);
  int domain = 0;
  socklen_t size = sizeof domain;
  if (connection == NULL || connection->ends[END_UPSTREAM].fd >= 0) {
    (void)close(upstream_fd); /* The program was faster. */
    return;
  }
  (void)getsockopt(upstream_fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  connection->is_upstream_unix = domain == AF_UNIX;
  if (!connection->is_upstream_unix) buffers_limit(relay, upstream_fd);
  connection->ends[END_UPSTREAM].fd = upstream_fd;
  connection->flows[END_UPSTREAM].state = FLOW_READING;
  if (connection->is_released) connection->flows[END_PROGRAM].state = FLOW_READING;
  count_decided(relay, connection);
  connection_watch(relay, connection);
}

static void set_low_water(const struct connection *connection, int bytes) {
  (void)setsockopt(connection->ends[END_PROGRAM].fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

void connection_hold(struct relay *relay, struct connection *connection, uint32_t offset, uint32_t bytes_max) {
  if (connection->is_released) return;
  connection->hold_offset = offset;
  connection->hold_bytes_max = bytes_max;
  /* Else bytes that were seen already would wake the loop for ever. */
  set_low_water(connection, (int)offset + 1);
  connection_watch(relay, connection);
}

void connection_release(struct relay *relay, struct connection *connection) {
  if (connection->is_released) return;
  connection->is_released = true;
  connection->hold_bytes_max = 0;
  set_low_water(connection, 1);
  if (connection->ends[END_UPSTREAM].fd >= 0) connection->flows[END_PROGRAM].state = FLOW_READING;
  count_decided(relay, connection);
  connection_watch(relay, connection);
}
