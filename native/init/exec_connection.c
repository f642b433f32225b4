/*
 * A connection attached to a command: what the client may send, and in which order frames go out.
 *
 * The daemon is trusted, but a frame that does not fit the state is a fault of one of the two programs: the
 * connection ends, the command goes on, and an attach finds it again.
 */
#include "init/exec_connection.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include "init/connection.h"
#include "init/exec.h"
#include "init/request.h"

static void attach(struct connection *connection, struct exec *exec) {
  connection->kind = CONNECTION_EXEC;
  connection->exec = exec;
  exec->client = connection;
}

void exec_connection_request(struct connection *connection, uint8_t *payload, size_t length) {
  struct exec_request spec;
  const char *wrong = exec_request_parse(payload, length, &spec);
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  if (exec_find(spec.id, spec.id_length) != NULL) {
    connection_refuse(connection, "exec_exists", EEXIST, "this exec id is in use");
    return;
  }
  struct exec *exec = exec_take_slot();
  if (exec == NULL) {
    connection_refuse(connection, "limit", EAGAIN, "too many commands");
    return;
  }
  int failure = exec_start(&spec, connection, &exec);
  if (failure != 0) {
    connection_refuse(connection, "exec_failed", failure, "pipes, terminal or process");
    return;
  }
  attach(connection, exec);
}

void exec_connection_attach(struct connection *connection, uint8_t *payload, size_t length) {
  struct attach_request wanted;
  const char *wrong = attach_request_parse(payload, length, &wanted);
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  struct exec *exec = exec_find(wanted.id, wanted.id_length);
  if (exec == NULL) {
    connection_refuse(connection, "exec_unknown", ESRCH, "no exec has this id");
    return;
  }
  for (int i = 0; i < STREAM_COUNT; i++) {
    const struct ring *ring = &exec->streams[i].ring;
    if (wanted.offsets[i] < ring->start || wanted.offsets[i] > ring->end) {
      connection_refuse(connection, "offset_gone", ERANGE, "this output is not kept");
      return;
    }
  }
  /* The newer client is the one that lives: an old connection may be a daemon's that is dead but not yet noticed. */
  if (exec->client != NULL) connection_close(exec->client);
  attach(connection, exec);
  for (int i = 0; i < STREAM_COUNT; i++) {
    exec->streams[i].sent = wanted.offsets[i];
    connection->started_offsets[i] = wanted.offsets[i];
  }
  exec->input.reported = exec->input.ring.start;
  connection->started_is_due = exec->state != EXEC_STARTING;
  if (exec->is_stopped) exec_stop_note(exec);
  /* Room can bring output and even the end at once; by now `started` goes before them. */
  for (int i = 0; i < STREAM_COUNT; i++) stream_acknowledge(&exec->streams[i], wanted.offsets[i]);
  connection_flush(connection);
}

static void exec_started(struct connection *connection) {
  connection->started_is_due = true;
  connection_flush(connection);
}

static void exec_failed(struct connection *connection, int number, const char *step) {
  connection->exec = NULL;
  connection_refuse(connection, "exec_failed", number, step);
}

/* Only after `release`, or when a slot is taken from an exec that has no client. */
static void exec_lost(struct connection *connection) {
  connection->exec = NULL;
  connection->stream_left = 0;
  bool is_all_said = connection->exit_is_sent && connection->out_sent == connection->out_used;
  connection->kind = CONNECTION_ANSWERED;
  if (is_all_said) connection_ask_again(connection);
}

const struct exec_client exec_connection_client = {
    .started = exec_started, .failed = exec_failed, .output = connection_flush, .lost = exec_lost};

/* --- sending ---------------------------------------------------------------------------------------------- */

static void compose_started(struct connection *connection, struct frame_writer *writer) {
  const struct exec *exec = connection->exec;
  connection->started_is_due = false;
  frame_begin(writer, FRAME_STARTED);
  frame_bytes(writer, FIELD_EXEC_ID, exec->id, exec->id_length);
  frame_integer(writer, FIELD_PID, (uint64_t)exec->pid);
  frame_integer(writer, FIELD_STDOUT_OFFSET, connection->started_offsets[STREAM_STDOUT]);
  frame_integer(writer, FIELD_STDERR_OFFSET, connection->started_offsets[STREAM_STDERR]);
  frame_integer(writer, FIELD_OFFSET, exec->input.ring.end);
  frame_integer(writer, FIELD_LENGTH, ring_used(&exec->input.ring));
}

static uint64_t microseconds(struct timeval time) {
  return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void compose_exit(struct connection *connection, struct frame_writer *writer) {
  const struct exec *exec = connection->exec;
  connection->exit_is_sent = true;
  frame_begin(writer, FRAME_EXIT);
  if (WIFSIGNALED(exec->wait_status)) frame_integer(writer, FIELD_EXIT_SIGNAL, (uint64_t)WTERMSIG(exec->wait_status));
  else frame_integer(writer, FIELD_EXIT_CODE, (uint64_t)WEXITSTATUS(exec->wait_status));
  frame_integer(writer, FIELD_TIMED_OUT, exec->timed_out);
  frame_integer(writer, FIELD_USER_US, microseconds(exec->usage.ru_utime));
  frame_integer(writer, FIELD_SYSTEM_US, microseconds(exec->usage.ru_stime));
  frame_integer(writer, FIELD_RSS_MAX_KIB, (uint64_t)exec->usage.ru_maxrss);
  frame_integer(writer, FIELD_STDOUT_OFFSET, exec->streams[STREAM_STDOUT].ring.end);
  frame_integer(writer, FIELD_STDERR_OFFSET, exec->streams[STREAM_STDERR].ring.end);
  if (exec->oom_kills != 0) frame_integer(writer, FIELD_OOM_KILLS, exec->oom_kills);
}

static bool compose_output(struct connection *connection) {
  struct exec *exec = connection->exec;
  for (int i = 1; i <= STREAM_COUNT; i++) {
    int index = (connection->stream_index + i) % STREAM_COUNT; /* by turns: neither stream starves the other */
    const struct stream *stream = &exec->streams[index];
    uint64_t unsent = stream->ring.end - stream->sent;
    if (unsent == 0) continue;
    uint32_t length = unsent > FRAME_DATA_BYTES_MAX ? FRAME_DATA_BYTES_MAX : (uint32_t)unsent;
    frame_header_write(connection->out, index == STREAM_STDOUT ? FRAME_STDOUT : FRAME_STDERR, length);
    connection->out_used = FRAME_HEADER_BYTES;
    connection->stream_index = index;
    connection->stream_left = length;
    return true;
  }
  return false;
}

bool exec_connection_compose(struct connection *connection) {
  struct exec *exec = connection->exec;
  if (exec->state == EXEC_STARTING) return false;
  connection->out_sent = 0;
  connection->out_used = 0;
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  if (connection->started_is_due) {
    compose_started(connection, &writer);
  } else if (exec->input.reported < exec->input.ring.start && !connection->exit_is_sent) {
    exec->input.reported = exec->input.ring.start;
    frame_begin(&writer, FRAME_ACK);
    frame_integer(&writer, FIELD_OFFSET, exec->input.reported);
  } else if (exec_stop_may_be_told(exec)) {
    exec->stop_is_due = false;
    frame_begin(&writer, FRAME_STOPPED);
  } else if (compose_output(connection)) {
    return true;
  } else if (exec->state == EXEC_ENDED && !connection->exit_is_sent) {
    compose_exit(connection, &writer);
  } else {
    return false;
  }
  connection->out_used = (uint32_t)frame_finish(&writer);
  return true;
}

/* --- receiving -------------------------------------------------------------------------------------------- */

static const uint8_t resize_fields[] = {FIELD_ROWS, FIELD_COLUMNS, 0};
static const uint8_t signal_fields[] = {FIELD_SIGNO, 0};
static const uint8_t ack_fields[] = {FIELD_STDOUT_OFFSET, FIELD_STDERR_OFFSET, 0};

static bool receive_resize(struct exec *exec) {
  uint64_t rows = 0, columns = 0;
  bool is_fine = request_integer(FIELD_ROWS, 1, GUEST_TERMINAL_CELLS_MAX, &rows) &&
                 request_integer(FIELD_COLUMNS, 1, GUEST_TERMINAL_CELLS_MAX, &columns) && rows > 0 && columns > 0;
  if (is_fine) exec_resize(exec, (uint16_t)rows, (uint16_t)columns);
  return is_fine;
}

static bool receive_signal(struct exec *exec) {
  uint64_t signo = 0;
  if (!request_integer(FIELD_SIGNO, 1, 64, &signo) || signo == 0) return false;
  exec_signal(exec, (int)signo);
  return true;
}

static bool receive_ack(struct exec *exec) {
  uint64_t offsets[STREAM_COUNT] = {exec->streams[0].ring.start, exec->streams[1].ring.start};
  for (int i = 0; i < STREAM_COUNT; i++) {
    const struct stream *stream = &exec->streams[i];
    enum field_tag tag = i == STREAM_STDOUT ? FIELD_STDOUT_OFFSET : FIELD_STDERR_OFFSET;
    if (!request_integer(tag, stream->ring.start, stream->sent, &offsets[i])) return false;
  }
  for (int i = 0; i < STREAM_COUNT; i++) stream_acknowledge(&exec->streams[i], offsets[i]);
  if (exec->client != NULL) connection_flush(exec->client);
  return true;
}

/* A whole control frame. False: it does not fit here. */
static bool receive_control(struct connection *connection, uint8_t *payload, size_t length) {
  struct exec *exec = connection->exec;
  switch (connection->header.type) {
    case FRAME_STDIN_EOF:
      if (length != 0 || !exec->has_input || (exec->input.eof_is_due && connection->has_ended_input)) return false;
      connection->has_ended_input = true;
      /* A daemon that took over does not know whether the last one's word arrived, so it says it again. */
      if (!exec->input.eof_is_due) exec_input_end(exec);
      return true;
    case FRAME_RESIZE:
      return request_parse(resize_fields, payload, length) == NULL && receive_resize(exec);
    case FRAME_SIGNAL:
      return request_parse(signal_fields, payload, length) == NULL && receive_signal(exec);
    case FRAME_ACK:
      return request_parse(ack_fields, payload, length) == NULL && receive_ack(exec);
    case FRAME_RELEASE:
      if (length != 0 || exec->state != EXEC_ENDED) return false;
      exec_free(exec);
      return true;
    default:
      return false;
  }
}

/* A header on an exec connection. stdin may never be more than the window: there is always room for what comes. */
static bool header_fits(struct connection *connection) {
  if (frame_header_parse(connection->head, &connection->header) != FRAME_FINE) return false;
  if (connection->header.type != FRAME_STDIN) return connection->header.length <= CONTROL_BYTES_MAX;
  const struct exec *exec = connection->exec;
  return exec->has_input && !exec->input.eof_is_due && connection->header.length <= ring_room(&exec->input.ring);
}

/* Takes what it can of the next frame; returns the bytes used, 0 where the connection must end. */
static size_t receive_some(struct connection *connection, const uint8_t *bytes, size_t length) {
  if (connection->input_left > 0) {
    size_t taken = length < connection->input_left ? length : connection->input_left;
    ring_append(&connection->exec->input.ring, bytes, taken);
    connection->input_left -= (uint32_t)taken;
    return taken;
  }
  size_t wanted = FRAME_HEADER_BYTES;
  if (connection->head_used >= FRAME_HEADER_BYTES) wanted += connection->header.length;
  size_t taken = wanted - connection->head_used;
  if (taken > length) taken = length;
  memcpy(connection->head + connection->head_used, bytes, taken);
  connection->head_used += (uint32_t)taken;
  if (connection->head_used == FRAME_HEADER_BYTES && wanted == FRAME_HEADER_BYTES) {
    if (!header_fits(connection)) return 0;
    if (connection->header.type == FRAME_STDIN) {
      connection->input_left = connection->header.length;
      connection->head_used = 0;
      return taken;
    }
    wanted += connection->header.length;
  }
  if (connection->head_used == wanted) {
    connection->head_used = 0;
    if (!receive_control(connection, connection->head + FRAME_HEADER_BYTES, connection->header.length)) return 0;
  }
  return taken;
}

size_t exec_connection_receive(struct connection *connection, const uint8_t *bytes, size_t length) {
  size_t used = 0;
  while (used < length && connection->kind == CONNECTION_EXEC) {
    size_t taken = receive_some(connection, bytes + used, length - used);
    if (taken == 0) {
      connection_close(connection);
      return 0;
    }
    used += taken;
    if (connection->kind == CONNECTION_EXEC && connection->exec->has_input) exec_input_push(connection->exec);
  }
  return used;
}

/* --- list ------------------------------------------------------------------------------------------------- */

/* An entry: header, three fields with their headers, the longest id. */
enum { ENTRY_BYTES_MAX = FRAME_HEADER_BYTES + 3 * 6 + 2 * 8 + GUEST_EXEC_ID_BYTES_MAX };

void exec_connection_list(struct connection *connection) {
  size_t capacity = (size_t)ENTRY_BYTES_MAX * (GUEST_EXECS_KNOWN_MAX + 1);
  if (!connection_hold_list(connection, capacity)) return;
  const struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    if (exec->state == EXEC_FREE || exec->state == EXEC_STARTING) continue;
    struct frame_writer writer = frame_writer_on(connection->bulk + connection->bulk_used, ENTRY_BYTES_MAX);
    frame_begin(&writer, FRAME_ENTRY);
    frame_bytes(&writer, FIELD_EXEC_ID, exec->id, exec->id_length);
    frame_integer(&writer, FIELD_PID, (uint64_t)exec->pid);
    frame_integer(&writer, FIELD_RUNNING, exec->state != EXEC_ENDED);
    connection->bulk_used += frame_finish(&writer);
  }
  struct frame_writer writer = frame_writer_on(connection->bulk + connection->bulk_used, ENTRY_BYTES_MAX);
  frame_begin(&writer, FRAME_END);
  connection->bulk_used += frame_finish(&writer);
  connection->kind = CONNECTION_ANSWERED;
  connection_flush(connection);
}
