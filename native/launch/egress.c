/* The egress channel: see egress.h. */
#include "launch/egress.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/dial_request.h"
#include "launch/log.h"

enum {
  IN_BYTES_MAX = 16384,
  /* Answers that nobody reads: one for each dial there may be, with room to spare. */
  OUT_BYTES_MAX = 1048576,
};

struct egress {
  struct source source;
  uint8_t in[IN_BYTES_MAX];
  size_t in_used;
  uint8_t *out;
  size_t out_used;
  size_t out_capacity;
  bool is_writing; /* the loop waits for room */
};

void egress_detach(struct launcher *launcher) {
  struct egress *egress = launcher->egress;
  if (egress == NULL) return;
  launcher->egress = NULL; /* First: nobody is told of the dials that end with it. */
  source_close(&egress->source);
  free(egress->out);
  free(egress);
  launcher->ports->egress_went(launcher);
}

void egress_forget(const struct launcher *launcher) {
  if (launcher->egress != NULL) close(launcher->egress->source.fd);
}

static void flush(struct launcher *launcher) {
  struct egress *egress = launcher->egress;
  if (egress->out_used == 0) return;
  ssize_t sent = send(egress->source.fd, egress->out, egress->out_used, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) {
    egress->out_used -= (size_t)sent;
    memmove(egress->out, egress->out + sent, egress->out_used);
  }
  /* An end shows when it is read. */
  bool is_writing = egress->out_used > 0;
  if (is_writing != egress->is_writing) {
    (void)source_wait(launcher, &egress->source, is_writing ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  egress->is_writing = is_writing;
}

static bool make_room(struct egress *egress, size_t length) {
  if (egress->out_capacity - egress->out_used >= length) return true;
  size_t capacity = egress->out_capacity == 0 ? 4096 : egress->out_capacity * 2;
  uint8_t *bytes = capacity > OUT_BYTES_MAX ? NULL : realloc(egress->out, capacity);
  if (bytes == NULL) return false;
  egress->out = bytes;
  egress->out_capacity = capacity;
  return true;
}

/* Called from dials that end, and so from within their walk: a channel that overflows ends in its next round. */
static void say(struct launcher *launcher, struct frame_writer *writer) {
  struct egress *egress = launcher->egress;
  size_t length = frame_finish(writer);
  if (egress == NULL || length == 0) return;
  if (!make_room(egress, length)) {
    shutdown(egress->source.fd, SHUT_RDWR);
    return;
  }
  memcpy(egress->out + egress->out_used, writer->buffer, length);
  egress->out_used += length;
  flush(launcher);
}

void egress_say_dialed(struct launcher *launcher, uint64_t instance, uint64_t connection, int error) {
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_DIALED);
  frame_integer(&writer, FIELD_INSTANCE, instance);
  frame_integer(&writer, FIELD_CONNECTION, connection);
  frame_integer(&writer, FIELD_ERRNO, (uint64_t)error);
  say(launcher, &writer);
}

/* Returns false where what came is no request. */
static bool serve_all(struct launcher *launcher, struct egress *egress) {
  size_t done = 0;
  while (egress->in_used - done >= FRAME_HEADER_BYTES) {
    struct frame_header header;
    struct dial_request request;
    uint8_t *payload = egress->in + done + FRAME_HEADER_BYTES;
    if (frame_header_parse(egress->in + done, &header) != FRAME_FINE || header.length > DIAL_REQUEST_BYTES_MAX) {
      return false;
    }
    if (egress->in_used - done - FRAME_HEADER_BYTES < header.length) break;
    if (!dial_request_parse(&request, header.type, payload, header.length)) return false;
    done += FRAME_HEADER_BYTES + header.length;
    launcher->ports->dial_came(launcher, &request);
  }
  egress->in_used -= done;
  if (done > 0) memmove(egress->in, egress->in + done, egress->in_used);
  return true;
}

static void egress_ready(struct launcher *launcher, struct source *source) {
  struct egress *egress = launcher->egress;
  flush(launcher);
  ssize_t got = recv(source->fd, egress->in + egress->in_used, sizeof egress->in - egress->in_used, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) egress->in_used += (size_t)got;
  if (got > 0 && serve_all(launcher, egress)) return;
  log_line(got > 0 ? "the egress process breaks its protocol" : "the egress process is gone");
  egress_detach(launcher);
}

void egress_attach(struct launcher *launcher, struct connection *connection) {
  struct egress *egress = calloc(1, sizeof *egress);
  uint8_t buffer[16];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  egress_detach(launcher);
  if (egress == NULL) {
    connection_close(launcher, connection);
    return;
  }
  source_leave(&connection->source);
  egress->source = (struct source){.fd = take_fd(&connection->source.fd), .ready = egress_ready};
  connection_close(launcher, connection);
  launcher->egress = egress;
  frame_begin(&writer, FRAME_OK);
  say(launcher, &writer);
  if (source_wait(launcher, &egress->source, EPOLLIN) != 0) {
    egress_detach(launcher);
    return;
  }
  log_line("the egress process is attached");
  launcher->ports->egress_came(launcher);
}
