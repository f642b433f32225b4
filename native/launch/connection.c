/* Clients of the launcher: see connection.h. */
#include "launch/connection.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "launch/log.h"
#include "launch/message.h"
#include "launch/socket.h"

enum {
  /* The daemon opens one connection per request; a burst of creates and a few slow image tools fit many times. */
  CONNECTIONS_MAX = 1024,
  /* A request is one frame that the daemon writes at once; but it connects first, and a busy one gets to writing seconds later. */
  REQUEST_MS_MAX = 30000,
};

static struct connection *connection_of(struct source *source) {
  return (struct connection *)(void *)((char *)source - offsetof(struct connection, source));
}

void connection_close(struct launcher *launcher, struct connection *connection) {
  for (struct connection **at = &launcher->connections; *at != NULL; at = &(*at)->next) {
    if (*at != connection) continue;
    *at = connection->next;
    break;
  }
  launcher->connection_count--;
  source_close(&connection->source);
  close_fd(&connection->descriptor);
  request_free(&connection->request);
  free(connection->payload);
  free(connection);
}

void connection_send(struct connection *connection, struct frame_writer *writer) {
  size_t length = frame_finish(writer);
  if (length == 0) return;
  ssize_t sent = send(connection->source.fd, writer->buffer, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  /* Half a frame can't be taken back: the client sees the connection end and asks again. */
  if (sent != (ssize_t)length) shutdown(connection->source.fd, SHUT_RDWR);
}

void connection_ok(struct launcher *launcher, struct connection *connection) {
  uint8_t buffer[64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_OK);
  connection_send(connection, &writer);
  connection_close(launcher, connection);
}

void write_fault_frame(struct frame_writer *writer, const struct fault *fault) {
  frame_begin(writer, FRAME_ERROR);
  frame_text(writer, FIELD_ERROR_CODE, fault->code == NULL ? "launch_failed" : fault->code);
  if (fault->number != 0) frame_integer(writer, FIELD_ERRNO, (uint64_t)fault->number);
  frame_text(writer, FIELD_MESSAGE, fault->text);
}

void connection_fault(struct launcher *launcher, struct connection *connection, const struct fault *fault) {
  uint8_t buffer[FAULT_TEXT_BYTES_MAX + 256];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  write_fault_frame(&writer, fault);
  connection_send(connection, &writer);
  connection_close(launcher, connection);
}

/* Returns 1 when the whole request is here, 0 when more is to come, -1 when the client is to be dropped. */
static int receive(struct connection *connection, struct fault *fault) {
  int fd = connection->source.fd;
  while (connection->header_used < FRAME_HEADER_BYTES) {
    int along;
    ssize_t got = message_receive(fd, connection->header + connection->header_used,
                                  FRAME_HEADER_BYTES - connection->header_used, &along);
    if (along >= 0) {
      close_fd(&connection->descriptor);
      connection->descriptor = along;
    }
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    connection->header_used += (size_t)got;
    if (connection->header_used < FRAME_HEADER_BYTES) continue;
    errno = 0;
    if (frame_header_parse(connection->header, &connection->parsed) != FRAME_FINE) {
      fault_set(fault, "invalid_request", "malformed frame header");
      return -1;
    }
    connection->payload = malloc((size_t)connection->parsed.length + 1);
    if (connection->payload == NULL) return -1;
  }
  while (connection->payload_used < connection->parsed.length) {
    ssize_t got = recv(fd, connection->payload + connection->payload_used,
                       connection->parsed.length - connection->payload_used, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    connection->payload_used += (size_t)got;
  }
  return 1;
}

static void connection_ready(struct launcher *launcher, struct source *source) {
  struct connection *connection = connection_of(source);
  struct fault fault = {0};
  if (connection->has_request) {
    /* Anything after the request is a breach, and its end means the client is gone. What was begun goes on. */
    connection_close(launcher, connection);
    return;
  }
  int received = receive(connection, &fault);
  if (received == 0) return;
  if (received > 0 && request_parse(&connection->request, connection->parsed.type, connection->payload,
                                    connection->payload_used, &fault) == 0) {
    connection->has_request = true;
    connection->deadline_ms = 0;
    free(connection->payload);
    connection->payload = NULL;
    launcher->ports->request_came(launcher, connection);
    return;
  }
  if (fault.code == NULL) {
    connection_close(launcher, connection);
    return;
  }
  log_line("refused a request: %s", fault.text);
  connection_fault(launcher, connection, &fault);
}

static void listener_ready(struct launcher *launcher, struct source *source) {
  int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct ucred peer;
  socklen_t size = sizeof peer;
  struct connection *connection = NULL;
  /* The file's mode keeps others out already; this holds even where a directory was left open. Host root (as
     `enter` that looks for a living launcher) only connects and asks nothing. */
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() &&
      launcher->connection_count < CONNECTIONS_MAX) {
    connection = calloc(1, sizeof *connection);
  }
  if (connection == NULL) {
    close(fd);
    return;
  }
  connection->source = (struct source){.fd = fd, .ready = connection_ready};
  connection->descriptor = -1;
  connection->deadline_ms = now_ms() + REQUEST_MS_MAX;
  connection->next = launcher->connections;
  launcher->connections = connection;
  launcher->connection_count++;
  if (source_add(launcher, &connection->source) != 0) connection_close(launcher, connection);
}

int connections_listen(struct launcher *launcher) {
  launcher->listener.fd = socket_listen_at(launcher->run_fd, "launch.sock", CONNECTIONS_MAX, SOCK_NONBLOCK);
  launcher->listener.ready = listener_ready;
  return launcher->listener.fd < 0 ? -1 : source_add(launcher, &launcher->listener);
}

int64_t connections_expire(struct launcher *launcher) {
  int64_t next = 0;
  int64_t now = now_ms();
  for (struct connection *connection = launcher->connections; connection != NULL;) {
    struct connection *following = connection->next;
    if (connection->deadline_ms != 0 && connection->deadline_ms <= now) {
      connection_close(launcher, connection);
    } else if (connection->deadline_ms != 0 && (next == 0 || connection->deadline_ms < next)) {
      next = connection->deadline_ms;
    }
    connection = following;
  }
  return next;
}
