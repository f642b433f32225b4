/* The console: see console.h. */
#include "vmm/console.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/ring.h"
#include "common/scratch.h"
#include "vmm/connection.h"

enum {
  /* Reads per event: a guest that floods its console must not keep streams waiting. */
  READS_PER_EVENT = 4,
  DRAINED_READS_MAX = 64,
};
_Static_assert((int)VMM_CONSOLE_BYTES == (int)GUEST_WINDOW_BYTES, "the ring has this size");

static uint8_t bytes[VMM_CONSOLE_BYTES];
static struct ring ring = {.bytes = bytes};
static struct watch outputs[VMM_COMMANDS_MAX];
static unsigned output_count;

/* False: it is closed. */
static bool send_to(struct connection *reader) {
  while (reader->console_sent < ring.end) {
    struct iovec spans[2];
    struct msghdr message = {.msg_iov = spans};
    if (reader->console_sent < ring.start) break;
    int count = ring_spans(&ring, reader->console_sent, (size_t)(ring.end - reader->console_sent), spans);
    message.msg_iovlen = (__typeof__(message.msg_iovlen))count; /* int in musl, size_t in glibc */
    ssize_t put = sendmsg(reader->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      watch_for(&reader->watch, EPOLLIN | EPOLLOUT);
      return true;
    }
    if (put < 0) break;
    reader->console_sent += (uint64_t)put;
  }
  if (reader->console_sent == ring.end) {
    watch_for(&reader->watch, EPOLLIN);
    return true;
  }
  connection_close(reader);
  return false;
}

static void append(const uint8_t *from, size_t length) {
  size_t room = ring_room(&ring);
  if (room < length) ring.start += length - room;
  ring_append(&ring, from, length);
  for (struct connection *at = NULL; (at = connection_next(at, CONNECTION_CONSOLE)) != NULL;) (void)send_to(at);
}

static void output_ready(void *owner, uint32_t events) {
  (void)events;
  struct watch *output = owner;
  for (int i = 0; i < READS_PER_EVENT; i++) {
    ssize_t got = read(output->fd, scratch, sizeof scratch);
    if (got > 0) {
      append(scratch, (size_t)got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) watch_close(output);
    return;
  }
}

void console_listen(int fd) {
  if (output_count == VMM_COMMANDS_MAX) {
    (void)close(fd); /* A pipe's read end: nothing is lost. */
    return;
  }
  struct watch *output = &outputs[output_count++];
  watch_start(output, fd, output_ready, output);
  watch_for(output, EPOLLIN);
}

void console_request(struct connection *connection, uint8_t *payload, size_t length) {
  (void)payload;
  if (length > 0) {
    connection_refuse(connection, "bad_request", EINVAL, "a field has no business in this request");
    return;
  }
  if (!connection_begin_raw(connection)) return;
  connection->kind = CONNECTION_CONSOLE;
  connection->console_sent = ring.start;
  (void)send_to(connection);
}

void console_ready(struct connection *connection, uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !send_to(connection)) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  ssize_t got = recv(connection->watch.fd, scratch, sizeof scratch, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return; /* There is nothing to say. */
  connection_close(connection);
}

void console_drain(void) {
  for (unsigned i = 0; i < output_count; i++) {
    for (int reads = 0; outputs[i].fd >= 0 && reads < DRAINED_READS_MAX; reads++) {
      ssize_t got = read(outputs[i].fd, scratch, sizeof scratch);
      if (got <= 0) break;
      append(scratch, (size_t)got);
    }
  }
}
