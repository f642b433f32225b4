/* The conversation with the egress process: see docs/internals/egress.md for its frames. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/frame.h"
#include "relay/command.h"
#include "relay/state.h"

static size_t waiting(const struct relay *relay) { return relay->out.tail - relay->out.head; }

static void for_all(struct relay *relay, void (*visit)(struct relay *relay, struct connection *connection)) {
  for (unsigned i = 0; i < RELAY_BUCKETS; i++) {
    for (struct connection *at = relay->buckets[i]; at != NULL;) {
      struct connection *next = at->next_in_bucket;
      if (!at->is_dead) visit(relay, at); /* One visit may end another connection. */
      at = next;
    }
  }
}

/* Above the bound nothing new is taken in; well below it everything goes on. */
static void set_paused(struct relay *relay, bool paused) {
  if (relay->is_paused == paused) return;
  relay->is_paused = paused;
  relay_listen(relay);
  for_all(relay, connection_watch); /* Holds wait, too. */
}

void control_flush(struct relay *relay) {
  struct queue *out = &relay->out;
  if (relay->control.fd < 0) return;
  while (waiting(relay) > 0) {
    ssize_t sent = send(relay->control.fd, out->bytes + out->head, waiting(relay), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent <= 0) {
      control_lose(relay);
      return;
    }
    out->head += (size_t)sent;
  }
  if (waiting(relay) == 0) out->head = out->tail = 0;
  (void)waiter_set(relay, &relay->control, waiting(relay) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (waiting(relay) < RELAY_QUEUE_BYTES_MAX / 2) set_paused(relay, false);
}

static bool make_room(struct queue *queue, size_t length) {
  if (queue->capacity - queue->tail >= length) return true;
  size_t used = queue->tail - queue->head;
  if (used > 0) memmove(queue->bytes, queue->bytes + queue->head, used);
  queue->head = 0;
  queue->tail = used;
  if (queue->capacity - used >= length) return true;
  size_t capacity = queue->capacity == 0 ? 4096 : queue->capacity * 2;
  while (capacity - used < length) capacity *= 2;
  uint8_t *bytes = realloc(queue->bytes, capacity);
  if (bytes == NULL) return false;
  queue->bytes = bytes;
  queue->capacity = capacity;
  return true;
}

/* Sent at the end of the round, so that its frames share a system call. */
static void say(struct relay *relay, struct frame_writer *writer) {
  size_t length = frame_finish(writer);
  if (relay->control.fd < 0 || length == 0) return;
  if (!make_room(&relay->out, length)) {
    control_lose(relay); /* Half a conversation is none. */
    return;
  }
  memcpy(relay->out.bytes + relay->out.tail, writer->buffer, length);
  relay->out.tail += length;
  if (waiting(relay) > RELAY_QUEUE_BYTES_MAX) set_paused(relay, true);
}

void control_say_open(struct relay *relay, struct connection *connection) {
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  if (relay->control.fd < 0) return;
  connection->epoch = relay->epoch;
  frame_begin(&writer, FRAME_CONNECTION_OPEN);
  frame_integer(&writer, FIELD_CONNECTION, connection->id);
  frame_bytes(&writer, FIELD_ADDRESS, connection->address, connection->address_length);
  frame_integer(&writer, FIELD_PORT, connection->port);
  say(relay, &writer);
}

void control_say_first(struct relay *relay, const struct connection *connection, const uint8_t *bytes, size_t length,
                       bool ended) {
  uint8_t buffer[RELAY_FIRST_BYTES_MAX + 128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_CONNECTION_FIRST);
  frame_integer(&writer, FIELD_CONNECTION, connection->id);
  frame_bytes(&writer, FIELD_FIRST_BYTES, bytes, length);
  frame_integer(&writer, FIELD_ENDED, ended);
  say(relay, &writer);
}

void control_say_closed(struct relay *relay, const struct connection *connection, enum relay_reason reason) {
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  /* The present egress process knows the tunnels of the ones before it; a number that was never said, nobody knows. */
  if (connection->epoch == 0 || relay->is_over) return;
  frame_begin(&writer, FRAME_CONNECTION_CLOSED);
  frame_integer(&writer, FIELD_CONNECTION, connection->id);
  frame_integer(&writer, FIELD_BYTES_UP, connection->flows[END_PROGRAM].moved);
  frame_integer(&writer, FIELD_BYTES_DOWN, connection->flows[END_UPSTREAM].moved);
  frame_integer(&writer, FIELD_REASON, reason);
  say(relay, &writer);
}

void control_say_query(struct relay *relay, const uint8_t *peer, size_t peer_length, const uint8_t *message,
                       size_t length) {
  uint8_t buffer[RELAY_QUERY_BYTES_MAX + 128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_DNS_QUERY);
  frame_bytes(&writer, FIELD_PEER, peer, peer_length);
  frame_bytes(&writer, FIELD_MESSAGE, message, length);
  say(relay, &writer);
}

static void obey(struct relay *relay, const struct command *command) {
  if (command->type == FRAME_DNS_ANSWER) {
    query_answer(relay, command->peer, command->peer_length, command->message, command->message_length);
    return;
  }
  struct connection *connection = connection_find(relay, command->connection);
  if (connection == NULL) return; /* It ended while the command was on its way. */
  if (command->type == FRAME_CONNECTION_HOLD) {
    connection_hold(relay, connection, command->offset, command->bytes_max);
  } else if (command->type == FRAME_CONNECTION_RELEASE) {
    connection_release(relay, connection);
  } else {
    connection_reset(relay, connection, REASON_OUR_RESET);
  }
}

/* Returns false where what came is no command. */
static bool obey_all(struct relay *relay) {
  size_t done = 0;
  uint32_t epoch = relay->epoch;
  while (relay->in_used - done >= FRAME_HEADER_BYTES) {
    struct frame_header header;
    struct command command;
    uint8_t *payload = relay->in + done + FRAME_HEADER_BYTES;
    if (frame_header_parse(relay->in + done, &header) != FRAME_FINE || header.length > RELAY_COMMAND_BYTES_MAX) {
      return false;
    }
    if (relay->in_used - done - FRAME_HEADER_BYTES < header.length) break;
    if (!command_parse(&command, header.type, payload, header.length)) return false;
    obey(relay, &command);
    if (relay->control.fd < 0 || relay->epoch != epoch) return true; /* Lost while it was obeyed. */
    done += FRAME_HEADER_BYTES + header.length;
  }
  relay->in_used -= done;
  if (done > 0 && relay->in_used > 0) memmove(relay->in, relay->in + done, relay->in_used);
  return true;
}

static void control_ready(struct relay *relay, struct waiter *waiter, uint32_t events) {
  if ((events & ~(uint32_t)EPOLLOUT) == 0) return; /* What waits is sent when the round is over. */
  size_t room = FRAME_HEADER_BYTES + RELAY_COMMAND_BYTES_MAX - relay->in_used;
  ssize_t got = recv(waiter->fd, relay->in + relay->in_used, room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) relay->in_used += (size_t)got;
  if (got <= 0 || !obey_all(relay)) control_lose(relay);
}

/* What nobody has decided about is as if it had just been accepted; with half an upstream it can't be. */
static void begin_again(struct relay *relay, struct connection *connection) {
  if (connection_is_decided(connection)) return;
  connection->epoch = 0;
  if (connection->ends[END_UPSTREAM].fd >= 0) {
    connection_reset(relay, connection, REASON_OUR_RESET);
    return;
  }
  connection->is_released = false;
  connection->hold_bytes_max = 0;
  connection_watch(relay, connection);
}

static void announce(struct relay *relay, struct connection *connection) {
  if (connection->epoch == relay->epoch || connection_is_decided(connection)) return;
  /* A new number, so that what was dialled for the old conversation finds nobody. */
  connection_renumber(relay, connection);
  control_say_open(relay, connection);
}

static void forget(struct relay *relay) {
  waiter_close(relay, &relay->control);
  relay->out.head = relay->out.tail = 0;
  relay->in_used = 0;
  relay->lost_ms = relay_now_ms();
  relay->epoch++; /* No connection has this one. */
  for_all(relay, begin_again);
  set_paused(relay, false);
}

void control_lose(struct relay *relay) {
  if (relay->control.fd < 0) return;
  forget(relay);
  relay_tell(relay, RELAY_NEEDS_CONTROL);
}

void control_take(struct relay *relay, int fd) {
  if (relay->control.fd >= 0) forget(relay);
  relay->epoch++;
  relay->busy_ms = relay_now_ms();
  relay->control = (struct waiter){.fd = fd, .ready = control_ready};
  if (waiter_set(relay, &relay->control, EPOLLIN) != 0) {
    control_lose(relay);
    return;
  }
  relay_listen(relay);
  for_all(relay, announce);
}
