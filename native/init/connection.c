/* Accepting, the first frame, sending: see connection.h. */
#include "init/connection.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
/* Behind the one that it needs. */
#include <linux/vm_sockets.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/listener.h"
#include "common/scratch.h"
#include "init/exec.h"
#include "init/kept_memory.h"

/* Slots past the limit, only for telling so: a peer whose connection were closed at once would find its request
 * refused by the kernel and never read why. */
enum { REFUSED_CONNECTIONS = 32 };

static struct connection connections[GUEST_CONNECTIONS_MAX + REFUSED_CONNECTIONS];
static const struct connection_ports *ports;
static struct kept_memory short_payloads = {.bytes = 4096};
static unsigned used_slots;
static unsigned open_connections;
static bool is_vsock;
/* Bytes that came together with a release: of the next first frame. Only while its connection is at hand. */
static const uint8_t *ahead;
static size_t ahead_left;

static void connection_ready(void *owner, uint32_t events);
static void read_first_frame(struct connection *connection);

static struct connection *take_slot(void) {
  for (unsigned i = 0; i < used_slots; i++) {
    if (connections[i].kind == CONNECTION_FREE) return &connections[i];
  }
  return used_slots < sizeof connections / sizeof connections[0] ? &connections[used_slots++] : NULL;
}

/* Over vsock any user of the guest can connect, through its loopback, and so can other guests of the same VMM. */
static bool is_host(const struct sockaddr_storage *peer) {
  const struct sockaddr_vm *address = (const struct sockaddr_vm *)peer;
  return !is_vsock || (peer->ss_family == AF_VSOCK && address->svm_cid == VMADDR_CID_HOST);
}

static void accepted(int fd, const struct sockaddr_storage *peer) {
  struct connection *connection = is_host(peer) ? take_slot() : NULL;
  if (connection == NULL) {
    (void)close(fd);
    return;
  }
  memset(connection, 0, sizeof *connection);
  connection->kind = CONNECTION_NEW;
  watch_start(&connection->watch, fd, connection_ready, connection);
  watch_for(&connection->watch, EPOLLIN);
  open_connections++;
  if (open_connections > GUEST_CONNECTIONS_MAX) connection_refuse(connection, "limit", EAGAIN, "too many connections");
  else if (!is_vsock) read_first_frame(connection); /* Mostly it is there already. A guest's streams are made before they are needed. */
}

int connections_start(int listen_fd, const struct connection_ports *given) {
  int domain;
  socklen_t length = sizeof domain;
  ports = given;
  if (getsockopt(listen_fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return -1;
  is_vsock = domain == AF_VSOCK;
  return listener_start(listen_fd, accepted);
}

bool connections_close_whole(void) { return is_vsock; }

void connection_watch_hangup(struct connection *connection) {
  if (is_vsock) watch_for(&connection->watch, EPOLLRDHUP);
  else watch_for_hangup(&connection->watch);
}

static void drop_payload(struct connection *connection) {
  if (connection->payload == NULL) return;
  if (connection->header.length < short_payloads.bytes) kept_memory_give(&short_payloads, connection->payload, true);
  else (void)munmap(connection->payload, (size_t)connection->header.length + 1);
  connection->payload = NULL;
}

void connection_close(struct connection *connection) {
  if (connection->exec != NULL) connection->exec->client = NULL;
  connection->exec = NULL;
  if (connection->bulk != NULL) (void)munmap(connection->bulk, connection->bulk_capacity);
  connection->bulk = NULL;
  drop_payload(connection);
  watch_close(&connection->watch);
  connection->kind = CONNECTION_FREE;
  open_connections--;
}

void connection_refuse(struct connection *connection, const char *code, int number, const char *message) {
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_ERROR);
  frame_text(&writer, FIELD_ERROR_CODE, code);
  frame_integer(&writer, FIELD_ERRNO, (uint64_t)number);
  frame_text(&writer, FIELD_MESSAGE, message);
  connection_answer(connection, &writer);
}

void connection_answer(struct connection *connection, struct frame_writer *writer) {
  connection->out_used = (uint32_t)frame_finish(writer);
  connection->out_sent = 0;
  connection->kind = CONNECTION_ANSWERED;
  connection_flush(connection);
}

void connection_ask_again(struct connection *connection) {
  connection->kind = CONNECTION_NEW;
  connection->payload_used = 0;
  connection->started_is_due = connection->exit_is_sent = connection->has_ended_input = false;
  memset(connection->started_offsets, 0, sizeof connection->started_offsets);
  if (connection->is_kept) return;
  connection->is_kept = true;
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
  connection->out_used = (uint32_t)frame_finish(&writer);
  connection->out_sent = 0;
  connection_flush(connection);
}

/* Exactly the first frame is read and not a byte more: what follows may be for a worker. Returns bytes or 0. */
static size_t read_some(struct connection *connection, void *into, size_t wanted) {
  if (ahead_left > 0) {
    size_t taken = wanted < ahead_left ? wanted : ahead_left;
    memcpy(into, ahead, taken);
    ahead += taken;
    ahead_left -= taken;
    return taken;
  }
  ssize_t got = recv(connection->watch.fd, into, wanted, MSG_DONTWAIT);
  if (got > 0) return (size_t)got;
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) connection_close(connection);
  return 0;
}

bool connection_hold_list(struct connection *connection, size_t capacity) {
  void *memory = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    connection_refuse(connection, "limit", ENOMEM, "no memory for the list");
    return false;
  }
  connection->bulk = memory;
  connection->bulk_capacity = capacity;
  return true;
}

/* A byte longer than the payload. */
static void *payload_memory(size_t length) {
  if (length < short_payloads.bytes) return kept_memory_take(&short_payloads);
  void *memory = mmap(NULL, length + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static bool start_payload(struct connection *connection) {
  enum frame_fault fault = frame_header_parse(connection->head, &connection->header);
  if (fault != FRAME_FINE) {
    connection_refuse(connection, "bad_request", 0, frame_fault_text(fault));
    return false;
  }
  if (connection->header.length <= CONTROL_BYTES_MAX) return true;
  void *memory = payload_memory(connection->header.length);
  if (memory == NULL) {
    connection_refuse(connection, "limit", ENOMEM, "no memory for the request");
    return false;
  }
  connection->payload = memory;
  return true;
}

static void read_first_frame(struct connection *connection) {
  while (connection->head_used < FRAME_HEADER_BYTES) {
    size_t got = read_some(connection, connection->head + connection->head_used,
                           FRAME_HEADER_BYTES - connection->head_used);
    if (got == 0) return;
    connection->head_used += (uint32_t)got;
    if (connection->head_used == FRAME_HEADER_BYTES && !start_payload(connection)) return;
  }
  uint8_t *into = connection->payload != NULL ? connection->payload : connection->head + FRAME_HEADER_BYTES;
  while (connection->payload_used < connection->header.length) {
    size_t got = read_some(connection, into + connection->payload_used,
                           connection->header.length - connection->payload_used);
    if (got == 0) return;
    connection->payload_used += (uint32_t)got;
  }
  into[connection->header.length] = 0;
  if (ahead_left > 0) connection_refuse(connection, "bad_request", EINVAL, "more came than the next request");
  else ports->first_frame(connection, into, connection->header.length);
  if (connection->kind != CONNECTION_FREE) drop_payload(connection);
  connection->head_used = 0;
}

/* The peer's bytes after an answer mean nothing any more; reading them lets it finish sending and see the answer. */
static void read_on(struct connection *connection, bool is_over) {
  ssize_t got = recv(connection->watch.fd, scratch, sizeof scratch, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    connection_close(connection);
    return;
  }
  if (connection->kind == CONNECTION_EXEC) {
    size_t used = ports->exec_receive(connection, scratch, (size_t)got);
    if (used == 0) return;
    ahead = scratch + used;
    ahead_left = (size_t)got - used;
    if (ahead_left > 0 && connection->kind == CONNECTION_NEW) read_first_frame(connection);
    ahead_left = 0;
  }
  bool is_done = connection->kind == CONNECTION_ANSWERED || (connection->kind == CONNECTION_NEW && connection->head_used == 0);
  if (is_over && is_done) connection_close(connection);
}

static void connection_ready(void *owner, uint32_t events) {
  struct connection *connection = owner;
  switch (connection->kind) {
    case CONNECTION_NEW:
      if ((events & EPOLLOUT) != 0) connection_flush(connection);
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_first_frame(connection);
      return;
    case CONNECTION_WORKER:
      ports->worker_lost_client(connection);
      return;
    case CONNECTION_DIAL:
      ports->dial_ready(connection);
      return;
    case CONNECTION_EXEC:
    case CONNECTION_ANSWERED:
      if ((events & EPOLLOUT) != 0) connection_flush(connection);
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_on(connection, (events & EPOLLHUP) != 0);
      return;
    case CONNECTION_FREE:
      return;
  }
}

/* What is to be sent now, in at most three pieces. */
static int pending(struct connection *connection, struct iovec spans[3]) {
  int count = 0;
  if (connection->out_sent < connection->out_used) {
    spans[count++] = (struct iovec){.iov_base = connection->out + connection->out_sent,
                                    .iov_len = connection->out_used - connection->out_sent};
  }
  if (connection->bulk_sent < connection->bulk_used) {
    spans[count++] = (struct iovec){.iov_base = connection->bulk + connection->bulk_sent,
                                    .iov_len = connection->bulk_used - connection->bulk_sent};
  } else if (connection->stream_left > 0) {
    const struct stream *stream = &connection->exec->streams[connection->stream_index];
    count += ring_spans(&stream->ring, stream->sent, connection->stream_left, spans + count);
  }
  return count;
}

static void note_sent(struct connection *connection, size_t sent) {
  size_t of_out = connection->out_used - connection->out_sent;
  if (of_out > sent) of_out = sent;
  connection->out_sent += (uint32_t)of_out;
  sent -= of_out;
  if (connection->bulk != NULL) {
    connection->bulk_sent += sent;
  } else if (sent > 0) {
    connection->stream_left -= (uint32_t)sent;
    connection->exec->streams[connection->stream_index].sent += sent;
  }
}

void connection_flush(struct connection *connection) {
  if (connection->is_broken) return;
  for (;;) {
    struct iovec spans[3];
    int count = pending(connection, spans);
    if (count == 0) {
      if (connection->kind != CONNECTION_EXEC || !ports->exec_compose(connection)) break;
      continue;
    }
    struct msghdr message = {.msg_iov = spans};
    message.msg_iovlen = (__typeof__(message.msg_iovlen))count; /* int in musl, size_t in glibc */
    ssize_t sent = sendmsg(connection->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      note_sent(connection, (size_t)sent);
    } else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
      watch_for(&connection->watch, EPOLLIN | EPOLLOUT);
      return;
    } else if (errno != EINTR) {
      connection->is_broken = true;
      break;
    }
  }
  watch_for(&connection->watch, EPOLLIN);
}
