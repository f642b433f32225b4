/*
 * One connection from the daemon. Its first frame says what it is: a question that is answered, or a stream of the guest, of
 * the VMM's control socket, of its guest's memory or of the console.
 */
#ifndef SQUASH_VMM_CONNECTION_H
#define SQUASH_VMM_CONNECTION_H
#include <stdbool.h>
#include <stdint.h>

#include "common/frame.h"
#include "common/loop.h"
#include "common/transfer.h"
#include "vmm/guest_socket.h"

enum connection_kind {
  CONNECTION_FREE,
  CONNECTION_NEW,      /* reads its first frame */
  CONNECTION_STARTING, /* waits until the VMM's commands have started */
  CONNECTION_LINK,     /* belongs to link.c */
  CONNECTION_CONSOLE,  /* belongs to console.c */
  CONNECTION_ANSWERED  /* sends what is left and drops what comes, until the peer closes */
};

enum link_state { LINK_WAITS, LINK_ASKS, LINK_LISTENS, LINK_JOINED };

/* The other side of a stream to the guest or to the control socket. */
struct link {
  enum link_state state;
  bool is_control;
  bool holds_guest; /* a control's: see link_request_device */
  uint16_t port;
  struct watch far;
  struct guest_heard heard;
  int64_t again_ms;    /* the next try */
  int64_t asked_ms;    /* how long the last one waited for its answer */
  int64_t deadline_ms; /* when it is given up, unless it is joined */
  struct transfer up;  /* daemon to guest */
  struct transfer down;
  bool is_up_dead;
  bool is_down_dead;
};

enum { FIRST_BYTES_MAX = 64, ANSWER_BYTES_MAX = 512 };

struct connection {
  enum connection_kind kind;
  struct watch watch;
  /* Reading: `payload` is mapped where it does not fit behind the header. Both have a spare byte. */
  uint8_t head[FRAME_HEADER_BYTES + FIRST_BYTES_MAX + 1];
  uint32_t head_used;
  struct frame_header header;
  uint8_t *payload;
  uint32_t payload_used;
  uint8_t out[ANSWER_BYTES_MAX];
  uint32_t out_used;
  uint32_t out_sent;
  struct link link;
  uint64_t console_sent;
};

/* Whom a connection belongs to once its kind is known: they know connection.c, which does not know them. */
struct connection_ports {
  /* Serves or refuses; the payload is gone afterwards. */
  void (*first_frame)(struct connection *connection, uint8_t *payload, size_t length);
  void (*link_ready)(struct connection *connection, uint32_t events);
  void (*console_ready)(struct connection *connection, uint32_t events);
  /* Before it is closed, whyever. */
  void (*closing)(struct connection *connection);
};

int connections_start(int listen_fd, const struct connection_ports *ports);
/* The open connections of a kind: the first behind `before`, or from the beginning with NULL. */
struct connection *connection_next(const struct connection *before, enum connection_kind kind);
void connection_close(struct connection *connection);
/* Answers and waits for the peer to close. `number` is an errno or 0. */
void connection_refuse(struct connection *connection, const char *code, int number, const char *message);
void connection_answer(struct connection *connection, struct frame_writer *writer);
void connection_ok(struct connection *connection);
/* `ok`, behind which raw bytes come. False: the connection is closed. */
bool connection_begin_raw(struct connection *connection);

#endif
