/* Accepting, the first frame, answers: see connection.h. */
#include "vmm/connection.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/listener.h"
#include "common/scratch.h"

enum {
  /* Slots past the limit, only for telling so. */
  REFUSED_CONNECTIONS = 32,
  /* The longest first frame is a start's. */
  FIRST_FRAME_BYTES_MAX = VMM_COMMANDS_BYTES_MAX + 4096,
};
_Static_assert((int)FIRST_FRAME_BYTES_MAX <= (int)FRAME_PAYLOAD_BYTES_MAX, "a start has to fit into a frame");

static struct connection connections[VMM_CONNECTIONS_MAX + REFUSED_CONNECTIONS];
static const struct connection_ports *ports;
static unsigned used_slots;
static unsigned open_connections;

static void connection_ready(void *owner, uint32_t events);
static void read_first_frame(struct connection *connection);

static struct connection *take_slot(void) {
  for (unsigned i = 0; i < used_slots; i++) {
    if (connections[i].kind == CONNECTION_FREE) return &connections[i];
  }
  return used_slots < sizeof connections / sizeof connections[0] ? &connections[used_slots++] : NULL;
}

struct connection *connection_next(const struct connection *before, enum connection_kind kind) {
  for (unsigned i = before == NULL ? 0 : (unsigned)(before - connections) + 1; i < used_slots; i++) {
    if (connections[i].kind == kind) return &connections[i];
  }
  return NULL;
}

static void accepted(int fd, const struct sockaddr_storage *peer) {
  (void)peer;
  struct connection *connection = take_slot();
  if (connection == NULL) {
    (void)close(fd);
    return;
  }
  memset(connection, 0, sizeof *connection);
  connection->kind = CONNECTION_NEW;
  connection->link.far.fd = -1;
  watch_start(&connection->watch, fd, connection_ready, connection);
  watch_for(&connection->watch, EPOLLIN);
  open_connections++;
  if (open_connections > VMM_CONNECTIONS_MAX) connection_refuse(connection, "limit", EAGAIN, "too many connections");
  else read_first_frame(connection); /* Mostly it is there already. */
}

int connections_start(int listen_fd, const struct connection_ports *given) {
  ports = given;
  return listener_start(listen_fd, accepted);
}

static void drop_payload(struct connection *connection) {
  if (connection->payload != NULL) (void)munmap(connection->payload, (size_t)connection->header.length + 1);
  connection->payload = NULL;
}

void connection_close(struct connection *connection) {
  ports->closing(connection);
  drop_payload(connection);
  watch_close(&connection->watch);
  connection->kind = CONNECTION_FREE;
  open_connections--;
}

/* Sends as much as the socket takes. */
static void flush(struct connection *connection) {
  while (connection->out_sent < connection->out_used) {
    ssize_t put = send(connection->watch.fd, connection->out + connection->out_sent, connection->out_used - connection->out_sent,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      watch_for(&connection->watch, EPOLLIN | EPOLLOUT);
      return;
    }
    if (put < 0) break; /* Its hang-up ends it. */
    connection->out_sent += (uint32_t)put;
  }
  watch_for(&connection->watch, EPOLLIN);
}

void connection_answer(struct connection *connection, struct frame_writer *writer) {
  connection->out_used = (uint32_t)frame_finish(writer);
  connection->out_sent = 0;
  connection->kind = CONNECTION_ANSWERED;
  flush(connection);
}

void connection_refuse(struct connection *connection, const char *code, int number, const char *message) {
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_ERROR);
  frame_text(&writer, FIELD_ERROR_CODE, code);
  frame_integer(&writer, FIELD_ERRNO, (uint64_t)number);
  frame_text(&writer, FIELD_MESSAGE, message);
  connection_answer(connection, &writer);
}

void connection_ok(struct connection *connection) {
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
  connection_answer(connection, &writer);
}

bool connection_begin_raw(struct connection *connection) {
  uint8_t ok[FRAME_HEADER_BYTES];
  frame_header_write(ok, FRAME_OK, 0);
  /* The first bytes on an empty socket: they fit, or the peer is gone. */
  if (send(connection->watch.fd, ok, sizeof ok, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof ok) return true;
  connection_close(connection);
  return false;
}

/* Exactly the first frame is read and not a byte more: what follows is raw. Returns bytes or 0. */
static size_t read_some(struct connection *connection, void *into, size_t wanted) {
  ssize_t got = recv(connection->watch.fd, into, wanted, MSG_DONTWAIT);
  if (got > 0) return (size_t)got;
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) connection_close(connection);
  return 0;
}

static bool start_payload(struct connection *connection) {
  enum frame_fault fault = frame_header_parse(connection->head, &connection->header);
  if (fault == FRAME_FINE && connection->header.length > FIRST_FRAME_BYTES_MAX) fault = FRAME_FAULT_LENGTH;
  if (fault != FRAME_FINE) {
    connection_refuse(connection, "bad_request", 0, frame_fault_text(fault));
    return false;
  }
  if (connection->header.length <= FIRST_BYTES_MAX) return true;
  void *memory = mmap(NULL, (size_t)connection->header.length + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    connection_refuse(connection, "limit", ENOMEM, "no memory for the request");
    return false;
  }
  connection->payload = memory;
  return true;
}

static void read_first_frame(struct connection *connection) {
  while (connection->head_used < FRAME_HEADER_BYTES) {
    size_t got = read_some(connection, connection->head + connection->head_used, FRAME_HEADER_BYTES - connection->head_used);
    if (got == 0) return;
    connection->head_used += (uint32_t)got;
    if (connection->head_used == FRAME_HEADER_BYTES && !start_payload(connection)) return;
  }
  uint8_t *into = connection->payload != NULL ? connection->payload : connection->head + FRAME_HEADER_BYTES;
  while (connection->payload_used < connection->header.length) {
    size_t got = read_some(connection, into + connection->payload_used, connection->header.length - connection->payload_used);
    if (got == 0) return;
    connection->payload_used += (uint32_t)got;
  }
  ports->first_frame(connection, into, connection->header.length);
  if (connection->kind != CONNECTION_FREE) drop_payload(connection);
}

/* The peer's bytes after an answer mean nothing any more; reading them lets it finish sending and see the answer. */
static void read_on(struct connection *connection) {
  ssize_t got = recv(connection->watch.fd, scratch, sizeof scratch, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  connection_close(connection);
}

static void connection_ready(void *owner, uint32_t events) {
  struct connection *connection = owner;
  switch (connection->kind) {
    case CONNECTION_NEW:
      read_first_frame(connection);
      return;
    case CONNECTION_STARTING:
      connection_close(connection); /* Only the hang-up is waited for. */
      return;
    case CONNECTION_LINK:
      ports->link_ready(connection, events);
      return;
    case CONNECTION_CONSOLE:
      ports->console_ready(connection, events);
      return;
    case CONNECTION_ANSWERED:
      if ((events & EPOLLOUT) != 0) flush(connection);
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_on(connection);
      return;
    case CONNECTION_FREE:
      return;
  }
}
