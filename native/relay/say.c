/* What is said to the egress process: collected, and sent at the end of a round of events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/frame.h"
#include "relay/state.h"

static size_t waiting(const struct relay *relay) { return relay->out.tail - relay->out.head; }

void control_pause(struct relay *relay, bool is_paused) {
  if (relay->is_paused == is_paused) return;
  relay->is_paused = is_paused;
  relay_listen(relay);
  relay->ports->pause_changed(relay);
}

void control_flush(struct relay *relay) {
  struct queue *out = &relay->out;
  if (relay->control.fd < 0) return;
  while (waiting(relay) > 0) {
    ssize_t sent = send(relay->control.fd, out->bytes + out->head, waiting(relay), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent <= 0) {
      relay->ports->control_broke(relay);
      return;
    }
    out->head += (size_t)sent;
  }
  if (waiting(relay) == 0) out->head = out->tail = 0;
  (void)waiter_set(relay, &relay->control, waiting(relay) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (waiting(relay) < RELAY_QUEUE_BYTES_MAX / 2) control_pause(relay, false);
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
    relay->ports->control_broke(relay); /* Half a conversation is none. */
    return;
  }
  memcpy(relay->out.bytes + relay->out.tail, writer->buffer, length);
  relay->out.tail += length;
  if (waiting(relay) > RELAY_QUEUE_BYTES_MAX) control_pause(relay, true);
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
