/*
 * One connection from the daemon. Its first frame says what it is; from then on it belongs to one command, one
 * file worker, one dialled port, or only waits for its peer to close after an answer.
 *
 * Nothing here closes a connection while another module works on it: a failed send only marks it, and its own
 * hang-up event ends it.
 */
#ifndef SQUASH_INIT_CONNECTION_H
#define SQUASH_INIT_CONNECTION_H
#include <stdbool.h>
#include <stdint.h>

#include "common/frame.h"
#include "common/loop.h"

struct exec;

enum connection_kind {
  CONNECTION_FREE,
  CONNECTION_NEW,     /* reads its first frame, or after a command's release the next one */
  CONNECTION_EXEC,    /* attached to a command */
  CONNECTION_WORKER,  /* a child answers on it */
  CONNECTION_DIAL,    /* belongs to dial.c */
  CONNECTION_ANSWERED /* sends what is left and drops what comes, until the peer closes */
};

/* Longest control frame a client sends on an exec connection; `ack` has two integers. */
#define CONTROL_BYTES_MAX 64u
#define ANSWER_BYTES_MAX 512u

struct connection {
  enum connection_kind kind;
  bool is_broken; /* sending failed; the hang-up event is on its way */
  bool is_kept;   /* the peer knows that it may ask again */
  struct watch watch;

  /* Reading */
  uint8_t head[FRAME_HEADER_BYTES + CONTROL_BYTES_MAX + 1];
  uint32_t head_used;
  struct frame_header header;
  uint8_t *payload; /* of the first frame: mapped, one byte longer than the frame says */
  uint32_t payload_used;
  uint32_t input_left; /* of a stdin frame */

  /* Sending: `out`, then `bulk`, then `stream_left` bytes of the exec's stream `stream_index`. */
  uint8_t out[ANSWER_BYTES_MAX];
  uint32_t out_used;
  uint32_t out_sent;
  uint8_t *bulk;
  size_t bulk_capacity;
  size_t bulk_used;
  size_t bulk_sent;
  uint32_t stream_left;
  int stream_index;

  struct exec *exec;
  bool started_is_due;
  bool exit_is_sent;
  bool has_ended_input;
  uint64_t started_offsets[2];
};

/* Whom a connection belongs to once its kind is known: they know connection.c, which does not know them. */
struct connection_ports {
  /* Serves or refuses; the payload is gone afterwards. */
  void (*first_frame)(struct connection *connection, uint8_t *payload, size_t length);
  /* Returns the bytes used, fewer only where the command was released; 0: the connection is closed. */
  size_t (*exec_receive)(struct connection *connection, const uint8_t *bytes, size_t length);
  /* Puts the next frame into `out`; false where there is nothing to send. */
  bool (*exec_compose)(struct connection *connection);
  void (*worker_lost_client)(struct connection *connection);
  void (*dial_ready)(struct connection *connection);
};
int connections_start(int listen_fd, const struct connection_ports *ports);
/*
 * Whether both directions of a connection end at once, as over vsock: no VMM passes half an end on, and the kernel tells of the
 * peer's end as it does of half of one.
 */
bool connections_close_whole(void);
/* Waits for nothing but the peer's end. */
void connection_watch_hangup(struct connection *connection);
void connection_close(struct connection *connection);

/* Answers with `error` and waits for the peer to close. `number` is an errno or 0. */
void connection_refuse(struct connection *connection, const char *code, int number, const char *message);
/* Room for an answer of many entries, in `bulk`. False: there is none, and that is the answer. */
bool connection_hold_list(struct connection *connection, size_t capacity);
/* Sends what `writer` holds (built in connection->out) and waits for the peer to close. */
void connection_answer(struct connection *connection, struct frame_writer *writer);
/* The peer may ask for the next thing. The first time it is told so by `ok`: a PID 1 of an earlier release never says it. */
void connection_ask_again(struct connection *connection);
/* Sends as much as the socket takes. */
void connection_flush(struct connection *connection);

#endif
