/*
 * Bytes between a command and its rings. See exec.h.
 *
 * Output is read only into free room, so memory is bounded and a slow client stalls the command. When the command
 * has ended, what its pipes hold at that moment is its last output; what background children write later goes to
 * `drain.c`, so that they neither delay the exit nor get a SIGPIPE.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "init/drain.h"
#include "init/exec.h"

const struct exec_client *exec_client;

/* More than a terminal can hold between its two ends (64 KiB and a 4 KiB line buffer), where FIONREAD does not see
 * all; the terminal is read until empty, but no longer than this. */
enum { TERMINAL_DRAIN_BYTES = 131072 };
/* Whoever reads less than this of stdin is reported only once the ring is empty: fewer frames. */
enum { INPUT_REPORT_BYTES = GUEST_WINDOW_BYTES / 4 };

static void output_ready(void *owner, uint32_t events);
static void input_ready(void *owner, uint32_t events);

void exec_streams_start(struct exec *exec, int input, int output, int error) {
  uint8_t *memory = exec->memory;
  int fds[STREAM_COUNT] = {output, error};
  for (int i = 0; i < STREAM_COUNT; i++) {
    struct stream *stream = &exec->streams[i];
    stream->exec = exec;
    stream->ring.bytes = memory + (size_t)i * GUEST_WINDOW_BYTES;
    watch_start(&stream->watch, fds[i], output_ready, stream);
    stream->is_ended = fds[i] < 0;
    watch_for(&stream->watch, EPOLLIN);
  }
  exec->input.ring.bytes = memory + (size_t)STREAM_COUNT * GUEST_WINDOW_BYTES;
  exec->input.is_closed = input < 0;
  watch_start(&exec->input.watch, input, input_ready, exec);
}

static bool is_draining(const struct stream *stream) {
  return stream->exec->state == EXEC_DRAINING;
}

/* Nothing more of this stream will be told. Behind a command that has ended the pipe lives on for others. */
static void end_stream(struct stream *stream, bool at_eof) {
  stream->is_ended = true;
  if (at_eof || stream->exec->tty) watch_close(&stream->watch);
  else drain_adopt(watch_take(&stream->watch));
}

/* Moves one ring's worth at most. */
static void read_output(struct stream *stream) {
  size_t room = ring_room(&stream->ring);
  if (is_draining(stream) && (int64_t)room > stream->drain_left) room = (size_t)stream->drain_left;
  if (room == 0) return;
  struct iovec spans[2];
  int count = ring_spans(&stream->ring, stream->ring.end, room, spans);
  ssize_t got = readv(stream->watch.fd, spans, count);
  if (got > 0) {
    stream->ring.end += (uint64_t)got;
    if (is_draining(stream)) stream->drain_left -= got;
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    end_stream(stream, true); /* EIO is how a terminal says that nobody holds its other end. */
  } else if (is_draining(stream) && errno == EAGAIN) {
    end_stream(stream, false);
  }
}

static void note_drained(struct exec *exec) {
  if (exec->state != EXEC_DRAINING) return;
  if (!exec->streams[STREAM_STDOUT].is_ended || !exec->streams[STREAM_STDERR].is_ended) return;
  exec->state = EXEC_ENDED;
  if (exec->client != NULL) exec_client->output(exec->client);
}

static void read_and_wait(struct stream *stream) {
  if (!stream->is_ended) read_output(stream);
  /* A terminal gives what it has in small pieces; a pipe's last bytes can lie on both sides of the ring's seam. */
  while (is_draining(stream) && !stream->is_ended && stream->drain_left > 0 && ring_room(&stream->ring) > 0) {
    read_output(stream);
  }
  if (is_draining(stream) && !stream->is_ended && stream->drain_left == 0) end_stream(stream, false);
  if (!stream->is_ended) watch_for(&stream->watch, ring_room(&stream->ring) > 0 ? EPOLLIN : 0);
}

void exec_stop_note(struct exec *exec) {
  exec->stop_is_due = true;
  exec->stop_limit = exec->streams[STREAM_STDOUT].ring.end + TERMINAL_DRAIN_BYTES;
}

bool exec_stop_may_be_told(struct exec *exec) {
  struct stream *stream = &exec->streams[STREAM_STDOUT];
  if (!exec->stop_is_due) return false;
  uint64_t before;
  do {
    before = stream->ring.end;
    if (!stream->is_ended) read_output(stream);
  } while (stream->ring.end > before);
  bool has_room = ring_room(&stream->ring) > 0;
  if (!stream->is_ended) watch_for(&stream->watch, has_room ? EPOLLIN : 0);
  /* Others of its session may write on. */
  return stream->sent >= stream->ring.end ? has_room || stream->is_ended : stream->sent >= exec->stop_limit;
}

static void output_ready(void *owner, uint32_t events) {
  (void)events; /* A hang-up alone says nothing: the kernel looks for bytes first, and a writer may write and end between its two looks. */
  struct stream *stream = owner;
  read_and_wait(stream);
  if (stream->exec->client != NULL) exec_client->output(stream->exec->client);
  note_drained(stream->exec);
}

void stream_acknowledge(struct stream *stream, uint64_t offset) {
  bool was_full = ring_room(&stream->ring) == 0;
  stream->ring.start = offset;
  if (!was_full || stream->is_ended) return;
  read_and_wait(stream);
  note_drained(stream->exec);
}

void exec_streams_drain(struct exec *exec) {
  watch_close(&exec->input.watch);
  exec->input.is_closed = true;
  for (int i = 0; i < STREAM_COUNT; i++) {
    struct stream *stream = &exec->streams[i];
    if (stream->is_ended) continue;
    int left = TERMINAL_DRAIN_BYTES;
    if (!exec->tty && ioctl(stream->watch.fd, FIONREAD, &left) != 0) left = 0;
    stream->drain_left = left;
    read_and_wait(stream);
  }
  if (exec->client != NULL) exec_client->output(exec->client);
  note_drained(exec);
}

void exec_streams_abandon(struct exec *exec) {
  for (int i = 0; i < STREAM_COUNT; i++) {
    struct stream *stream = &exec->streams[i];
    if (!stream->is_ended && stream->watch.fd >= 0) drain_adopt(watch_take(&stream->watch));
    stream->is_ended = true;
  }
}

void exec_streams_close(struct exec *exec) {
  watch_close(&exec->input.watch);
  for (int i = 0; i < STREAM_COUNT; i++) watch_close(&exec->streams[i].watch);
}

static void drop_input(struct exec *exec) {
  struct input *input = &exec->input;
  watch_close(&input->watch);
  input->is_closed = true;
  input->ring.start = input->ring.end;
}

static void report_input(struct exec *exec) {
  struct input *input = &exec->input;
  uint64_t unreported = input->ring.start - input->reported;
  bool is_due = unreported >= INPUT_REPORT_BYTES || (unreported > 0 && ring_used(&input->ring) == 0);
  if (is_due && exec->client != NULL) exec_client->output(exec->client);
}

/* A terminal has no end of input; ^D at the start of a line is what a person would press. */
static void finish_input(struct exec *exec) {
  struct input *input = &exec->input;
  if (exec->tty) {
    if (write(input->watch.fd, "\x04", 1) < 0 && errno == EAGAIN) {
      watch_for(&input->watch, EPOLLOUT);
      return;
    }
    input->eof_is_due = false;
    watch_remove(&input->watch);
    return;
  }
  drop_input(exec);
}

void exec_input_push(struct exec *exec) {
  struct input *input = &exec->input;
  if (input->is_closed) {
    input->ring.start = input->ring.end;
    report_input(exec);
    return;
  }
  while (ring_used(&input->ring) > 0) {
    struct iovec spans[2];
    int count = ring_spans(&input->ring, input->ring.start, ring_used(&input->ring), spans);
    ssize_t put = writev(input->watch.fd, spans, count);
    if (put > 0) {
      input->ring.start += (uint64_t)put;
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      drop_input(exec); /* EPIPE: the command has closed its stdin, which is its right. */
    }
  }
  report_input(exec);
  if (input->is_closed) return;
  if (ring_used(&input->ring) > 0) watch_for(&input->watch, EPOLLOUT);
  else if (input->eof_is_due) finish_input(exec);
  else watch_remove(&input->watch);
}

static void input_ready(void *owner, uint32_t events) {
  (void)events;
  exec_input_push(owner);
}

void exec_input_end(struct exec *exec) {
  if (exec->input.is_closed) return;
  exec->input.eof_is_due = true;
  exec_input_push(exec);
}

void exec_resize(struct exec *exec, uint16_t rows, uint16_t columns) {
  struct winsize size = {.ws_row = rows, .ws_col = columns};
  /* Fails only where the terminal is gone, and then nobody sees its size. */
  if (exec->tty && !exec->input.is_closed) (void)ioctl(exec->input.watch.fd, TIOCSWINSZ, &size);
}
