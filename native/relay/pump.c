/*
 * Moving bytes from one end of a connection to the other without seeing them: socket → pipe → socket.
 *
 * No more is taken from the source than the target has room for, so that the pipe is empty again when the move is
 * over and one pipe serves thousands of connections. The room is the kernel's own count; where it takes less all the
 * same, the connection keeps its pipe until the rest is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay/state.h"

enum {
  /* Of one splice; a pipe takes less or more depending on how the bytes lie in pages. */
  PIECE_BYTES = 1048576,
  /* What a pipe gets that has carried much at once: as many pages, and each fragment of a packet takes one. A fresh one
     has 16, and it takes eight times as many calls. The kernel counts pages of pipes per user, relays of all sandboxes are one user,
     and 128 of these are its usual measure: so none is kept without connections. */
  WIDE_BYTES = 524288,
  /* Much: what 16 packets from afar hold. */
  MUCH_BYTES = 16384,
  /* Of one flow in one round: others have their turn, too. */
  PIECES_MAX = 8,
  /* From linux/sock_diag.h, whose names only came later. */
  MEMORY_SNDBUF = 3,
  MEMORY_WMEM_ALLOC = 2,
  MEMORY_WMEM_QUEUED = 5,
  MEMORY_COUNT = 9,
};
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static struct pipe *borrow(struct relay *relay) {
  struct pipe *pipe = relay->spare_pipes;
  if (pipe != NULL) {
    relay->spare_pipes = pipe->next;
    relay->spare_pipe_count--;
    return pipe;
  }
  int ends[2];
  if (relay->pipe_count >= RELAY_PIPES_MAX || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return NULL;
  pipe = malloc(sizeof *pipe);
  if (pipe == NULL) {
    close(ends[0]);
    close(ends[1]);
    return NULL;
  }
  *pipe = (struct pipe){.reader = ends[0], .writer = ends[1]};
  relay->pipe_count++;
  return pipe;
}

/* Also while it is full. Where the kernel grants no more it stays as it is. */
static void widen(struct relay *relay, struct pipe *pipe) {
  if (pipe->is_wide || relay->wide_pipe_count >= RELAY_PIPES_SPARE) return;
  pipe->is_wide = true;
  relay->wide_pipe_count++;
  (void)fcntl(pipe->writer, F_SETPIPE_SZ, WIDE_BYTES);
}

static void destroy(struct relay *relay, struct pipe *pipe) {
  close(pipe->reader);
  close(pipe->writer);
  relay->pipe_count--;
  relay->wide_pipe_count -= pipe->is_wide;
  free(pipe);
}

static void queue_for_pipe(struct relay *relay, struct flow *flow) {
  flow->state = FLOW_QUEUED;
  flow->next_queued = NULL;
  if (relay->queued_last != NULL) relay->queued_last->next_queued = flow;
  else relay->queued_first = flow;
  relay->queued_last = flow;
}

static void leave_queue(struct relay *relay, struct flow *flow) {
  struct flow *before = NULL;
  for (struct flow *at = relay->queued_first; at != flow; at = at->next_queued) before = at;
  if (before != NULL) before->next_queued = flow->next_queued;
  else relay->queued_first = flow->next_queued;
  if (relay->queued_last == flow) relay->queued_last = before;
}

/* The flow that waits longest may read again; the loop tells it so in the next round. */
static void call_next(struct relay *relay) {
  struct flow *next = relay->queued_first;
  if (next == NULL) return;
  leave_queue(relay, next);
  next->state = FLOW_READING;
  relay->ports->pipe_came(relay, next->connection);
}

static void give_back(struct relay *relay, struct flow *flow) {
  struct pipe *pipe = flow->pipe;
  if (pipe == NULL) return;
  flow->pipe = NULL;
  if (flow->piped > 0 || relay->spare_pipe_count >= RELAY_PIPES_SPARE) {
    destroy(relay, pipe);
  } else {
    pipe->next = relay->spare_pipes;
    relay->spare_pipes = pipe;
    relay->spare_pipe_count++;
  }
  flow->piped = 0;
  call_next(relay);
}

void flow_drop(struct relay *relay, struct flow *flow) {
  if (flow->state == FLOW_QUEUED) leave_queue(relay, flow);
  flow->state = FLOW_OFF;
  give_back(relay, flow);
}

void pipes_close(struct relay *relay) {
  while (relay->spare_pipes != NULL) {
    struct pipe *pipe = relay->spare_pipes;
    relay->spare_pipes = pipe->next;
    destroy(relay, pipe);
  }
}

/* Bytes that the target takes now; 0 where the loop is to say when it does. */
static size_t room_of(const struct connection *connection, enum end_name target) {
  uint32_t memory[MEMORY_COUNT];
  socklen_t size = sizeof memory;
  if (getsockopt(connection->ends[target].fd, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) return PIECE_BYTES;
  bool is_unix = target == END_UPSTREAM && connection->is_upstream_unix;
  uint32_t used = memory[is_unix ? MEMORY_WMEM_ALLOC : MEMORY_WMEM_QUEUED];
  uint32_t all = memory[MEMORY_SNDBUF];
  /* Sockets call themselves writable from a third of their room on: below a quarter the loop waits, and never spins. */
  if (used >= all || all - used < all / 4) return 0;
  return all - used < PIECE_BYTES ? all - used : PIECE_BYTES;
}

static bool is_again(void) { return errno == EAGAIN || errno == EINTR; }

/* Out of the pipe. Returns 1 when it is empty, 0 when the target takes no more, -1 when it broke. */
static int drain(struct relay *relay, struct flow *flow, int target) {
  while (flow->piped > 0) {
    ssize_t put = splice(flow->pipe->reader, NULL, target, NULL, flow->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (put <= 0) {
      if (put < 0 && !is_again()) return -1;
      flow->state = FLOW_WRITING;
      return 0;
    }
    flow->piped -= (size_t)put;
    flow->moved += (uint64_t)put;
  }
  give_back(relay, flow);
  return 1;
}

/* Into the pipe, which is empty. Returns 1 when something came or the source ended, 0 to wait, -1 when it broke. */
static int fill(struct relay *relay, struct flow *flow, int source, size_t room) {
  if (room == 0) {
    flow->state = FLOW_WRITING;
    return 0;
  }
  if (flow->pipe == NULL) flow->pipe = borrow(relay);
  if (flow->pipe == NULL) {
    if (relay->pipe_count == 0) return -1; /* Nobody could call us: descriptors are used up altogether. */
    queue_for_pipe(relay, flow);
    return 0;
  }
  ssize_t got = splice(source, NULL, flow->pipe->writer, NULL, room, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (got > 0) {
    flow->piped = (size_t)got;
    if (got >= MUCH_BYTES && (size_t)got < room) widen(relay, flow->pipe);
    return 1;
  }
  if (got == 0) {
    flow->source_ended = true;
    return 1;
  }
  flow->state = FLOW_READING;
  return is_again() ? 0 : -1;
}

int flow_move(struct relay *relay, struct flow *flow, enum end_name *broken) {
  struct connection *connection = flow->connection;
  enum end_name source = flow == &connection->flows[END_PROGRAM] ? END_PROGRAM : END_UPSTREAM;
  enum end_name target = 1 - source;
  for (int i = 0; i < PIECES_MAX; i++) {
    int drained = flow->piped > 0 ? drain(relay, flow, connection->ends[target].fd) : 1;
    *broken = target;
    if (drained < 0) return -1;
    if (drained == 0) return 0;
    if (flow->source_ended) {
      give_back(relay, flow);
      (void)shutdown(connection->ends[target].fd, SHUT_WR); /* One that is reset says so by itself. */
      flow->state = FLOW_DONE;
      return 0;
    }
    int filled = fill(relay, flow, connection->ends[source].fd, room_of(connection, target));
    *broken = source;
    if (filled > 0) continue;
    give_back(relay, flow);
    return filled;
  }
  flow->state = flow->piped > 0 ? FLOW_WRITING : FLOW_READING;
  return 0;
}
