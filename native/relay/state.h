/* The relay's state: one thread, one epoll loop. Included by this folder's files only. */
#ifndef SQUASH_RELAY_STATE_H
#define SQUASH_RELAY_STATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "relay/plan.h"

enum {
  /* Buckets of the table of connections. */
  RELAY_BUCKETS = 4096,
  /* Pipes at once. One is borrowed for a move and given back empty, unless the receiver took less than it had room
     for; so many at once only exist where a program stalls its own connections, and then its others wait. */
  RELAY_PIPES_MAX = 64,
  /* Empty pipes kept for the next move. */
  RELAY_PIPES_SPARE = 2,
  /* Bytes waiting for the egress process above which nothing is accepted, no query read and no hold answered. */
  RELAY_QUEUE_BYTES_MAX = 262144,
  /* What one hold answers at most: a TLS hello with room to spare. */
  RELAY_FIRST_BYTES_MAX = 16384,
  /* A query over UDP: more than any resolver asks for. Larger ones are dropped. */
  RELAY_QUERY_BYTES_MAX = 4096,
  /* A frame of the egress process: a DNS answer of 64 KiB and its fields. Larger ones end the control connection. */
  RELAY_COMMAND_BYTES_MAX = 66560,
};

/* Why a connection ended: `reason` of `connectionClosed`. */
enum relay_reason { REASON_ENDED, REASON_PROGRAM_RESET, REASON_UPSTREAM_RESET, REASON_OUR_RESET };

struct relay;

/* What the loop waits for. `ready` may end the owner: memory is only given back after the round. */
struct waiter {
  int fd;
  uint32_t interest;
  bool is_added;
  uint8_t slot; /* which end of its connection */
  void (*ready)(struct relay *relay, struct waiter *waiter, uint32_t events);
};

struct pipe {
  struct pipe *next;
  int reader;
  int writer;
  bool is_wide;
};

/* One direction of a connection. */
enum flow_state {
  FLOW_OFF,     /* not begun: no upstream, or the program's bytes are not released */
  FLOW_READING, /* waits for its source */
  FLOW_WRITING, /* waits for room at its target */
  FLOW_QUEUED,  /* waits for a pipe */
  FLOW_DONE,    /* source ended, target told */
};
struct flow {
  enum flow_state state;
  bool source_ended;
  struct pipe *pipe; /* borrowed; NULL most of the time */
  size_t piped;
  uint64_t moved;
  struct flow *next_queued;
  struct connection *connection;
};

enum end_name { END_PROGRAM, END_UPSTREAM, ENDS };
/* flows[END_PROGRAM] comes from the program, flows[END_UPSTREAM] from the upstream. */
struct connection {
  struct waiter ends[ENDS];
  struct flow flows[ENDS];
  struct connection *next_in_bucket;
  struct connection *next_dead;
  uint64_t id;
  int64_t since_ms; /* accepted */
  uint32_t epoch;   /* of the control connection it was announced on; 0: none */
  bool is_released;
  bool is_upstream_unix;
  bool is_dead;
  uint32_t hold_bytes_max; /* 0: no hold waits */
  uint32_t hold_offset;
  uint16_t port;
  uint8_t address_length;
  uint8_t address[16];
};

struct queue {
  uint8_t *bytes;
  size_t head;
  size_t tail;
  size_t capacity;
};

/* What lower files say to higher ones, which they do not know. relay.c knows both and fills it in. */
struct relay_ports {
  /* say.c: what was said is lost, or can't be said. */
  void (*control_broke)(struct relay *relay);
  /* say.c: `is_paused` is another. */
  void (*pause_changed)(struct relay *relay);
  /* pump.c: a flow that waited for a pipe may read again. */
  void (*pipe_came)(struct relay *relay, struct connection *connection);
};

struct relay {
  const struct relay_ports *ports;
  struct relay_plan plan;
  int epoll_fd;
  struct waiter launcher;
  struct waiter listeners[RELAY_LISTENERS_MAX];
  struct waiter control; /* fd -1 while there is none */
  uint32_t epoch;        /* counts control connections */
  int64_t lost_ms;       /* since when there is no control connection */
  struct queue out;
  uint8_t *in; /* the command under way */
  size_t in_used;
  struct connection *buckets[RELAY_BUCKETS];
  struct connection *dead;
  unsigned connection_count;
  unsigned undecided_count; /* neither released with an upstream nor ended */
  uint64_t last_id;
  struct pipe *spare_pipes;
  unsigned spare_pipe_count;
  unsigned pipe_count;
  unsigned wide_pipe_count;
  struct flow *queued_first;
  struct flow *queued_last;
  int64_t busy_ms;        /* when there was last something to do */
  int64_t accept_again_ms; /* descriptors were used up: no accept before; 0: none */
  bool is_paused;         /* the queue is above its bound */
  bool is_full;           /* of connections, and another relay takes what comes */
  bool is_over;           /* the launcher is gone */
};

/* state.c */
int waiter_set(struct relay *relay, struct waiter *waiter, uint32_t interest);
void waiter_close(const struct relay *relay, struct waiter *waiter);
int64_t relay_now_ms(void);
/* Accepts and reads queries again, or no longer, as queue, table and descriptors allow. */
void relay_listen(struct relay *relay);
/* Without a descriptor. */
void relay_tell(const struct relay *relay, enum relay_word word);

/* accept.c */
void accept_ready(struct relay *relay, struct waiter *waiter, uint32_t events);

/* buffers.c: what the connection may hold in the kernel, by how many there are. */
void buffers_limit(const struct relay *relay, int fd);

/* connection.c */
struct connection *connection_find(struct relay *relay, uint64_t id);
struct connection *connection_add(struct relay *relay, int program_fd);
/* The next number; the connection is found by it from now on. */
void connection_renumber(struct relay *relay, struct connection *connection);
void connection_attach(struct relay *relay, uint64_t id, int upstream_fd);
void connection_hold(struct relay *relay, struct connection *connection, uint32_t offset, uint32_t bytes_max);
void connection_release(struct relay *relay, struct connection *connection);
/* Resets both ends. */
void connection_reset(struct relay *relay, struct connection *connection, enum relay_reason reason);
/* What the loop waits for on both ends, from the state of the flows. */
void connection_watch(struct relay *relay, struct connection *connection);
void connection_continue(struct relay *relay, struct flow *flow);
bool connection_is_decided(const struct connection *connection);
void connections_free_dead(struct relay *relay);

/* pump.c: moves what can be moved now, sets the flow's state. Returns 0, or -1 where source or target broke, with
   `*broken` saying which. */
int flow_move(struct relay *relay, struct flow *flow, enum end_name *broken);
void flow_drop(struct relay *relay, struct flow *flow);
void pipes_close(struct relay *relay);

/* control.c */
void control_take(struct relay *relay, int fd);
void control_lose(struct relay *relay);
void control_pause_changed(struct relay *relay);

/* say.c: above the bound of its queue nothing new is taken in; well below it everything goes on. */
void control_pause(struct relay *relay, bool is_paused);
/* Sends what was said in this round. */
void control_flush(struct relay *relay);
void control_say_open(struct relay *relay, struct connection *connection);
void control_say_first(struct relay *relay, const struct connection *connection, const uint8_t *bytes, size_t length,
                       bool ended);
void control_say_closed(struct relay *relay, const struct connection *connection, enum relay_reason reason);
void control_say_query(struct relay *relay, const uint8_t *peer, size_t peer_length, const uint8_t *message,
                       size_t length);

/* query.c */
void query_ready(struct relay *relay, struct waiter *waiter, uint32_t events);
void query_answer(struct relay *relay, const uint8_t *peer, size_t peer_length, const uint8_t *message, size_t length);

#endif
