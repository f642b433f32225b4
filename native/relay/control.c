/*
 * The conversation with the egress process: what it commands, and its loss. See docs/internals/egress.md for the frames,
 * say.c for the other direction.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/frame.h"
#include "relay/command.h"
#include "relay/state.h"

static void for_all(struct relay *relay, void (*visit)(struct relay *relay, struct connection *connection)) {
  for (unsigned i = 0; i < RELAY_BUCKETS; i++) {
    for (struct connection *at = relay->buckets[i]; at != NULL;) {
      struct connection *next = at->next_in_bucket;
      if (!at->is_dead) visit(relay, at); /* One visit may end another connection. */
      at = next;
    }
  }
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
  control_pause(relay, false);
}

/* Holds wait, too. */
void control_pause_changed(struct relay *relay) { for_all(relay, connection_watch); }

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
