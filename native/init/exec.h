/*
 * One command from request to release: its process, its streams, its end.
 *
 *   STARTING ──► RUNNING ──► LINGERING ──► DRAINING ──► ENDED ──► (free)
 *       └─► (free, error to the client)
 *
 * STARTING  forked; execve has not yet succeeded.
 * LINGERING timed out; the main process is gone, others of its group have until the KILL.
 * DRAINING  what was in the pipes when it ended is still being moved into the rings.
 * ENDED     outcome and totals are known; kept until the client releases it, or it is the oldest of too many.
 *
 * A client may go and another may come in any state. Nothing is lost: bytes leave a ring only when acknowledged,
 * and a ring without room stalls the command.
 */
#ifndef SQUASH_INIT_EXEC_H
#define SQUASH_INIT_EXEC_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/loop.h"
#include "common/ring.h"
#include "init/request.h"

struct connection;

/* What a command tells whoever is attached to it: exec_connection.c, which knows commands, and not they it. */
struct exec_client {
  void (*started)(struct connection *client);
  void (*failed)(struct connection *client, int number, const char *step);
  /* There is output to send, or the end. */
  void (*output)(struct connection *client);
  void (*lost)(struct connection *client);
};

enum exec_state { EXEC_FREE, EXEC_STARTING, EXEC_RUNNING, EXEC_LINGERING, EXEC_DRAINING, EXEC_ENDED };
enum { STREAM_STDOUT = 0, STREAM_STDERR = 1, STREAM_COUNT = 2 };

struct exec;

struct stream {
  struct watch watch;
  struct exec *exec;
  struct ring ring; /* start: acknowledged; end: read from the command */
  uint64_t sent;    /* to the present client; start ≤ sent ≤ end */
  int64_t drain_left; /* bytes still to be read in DRAINING */
  bool is_ended;
};

struct input {
  struct watch watch;
  struct ring ring; /* start: taken by the command; end: received */
  uint64_t reported; /* start as the client last heard it */
  bool eof_is_due;   /* the client has ended stdin */
  bool is_closed;    /* nobody reads any more: what comes is dropped and counted */
};

struct exec {
  enum exec_state state;
  uint8_t id[GUEST_EXEC_ID_BYTES_MAX];
  uint8_t id_length;
  bool tty;
  bool has_jobs;
  bool is_stopped;  /* as far as PID 1 knows: somebody inside may have continued it */
  bool stop_is_due; /* to be told */
  bool has_input;
  bool timed_out;
  bool kill_sent;
  pid_t pid;
  void *memory; /* the rings */
  struct watch status;
  struct stream streams[STREAM_COUNT];
  struct input input;
  struct connection *client; /* NULL while nobody is attached */
  int64_t deadline_ms;       /* 0: none; then the KILL's time once timed_out */
  int wait_status;
  uint64_t stop_limit; /* of stdout: it is told here at the latest */
  uint64_t oom_kills; /* of a guest, where it ended in a failure */
  struct rusage usage;
  uint64_t end_order;
};

/* exec_table.c: finding, making, forgetting. */
struct exec *exec_find(const uint8_t *id, size_t length);
/* A free slot, forgetting the oldest ended exec if need be. NULL past the limits. */
struct exec *exec_take_slot(void);
/* For the rings; NULL: there is none. */
void *exec_memory(void);
void exec_free(struct exec *exec);
/* Nobody will ask for any of them again: their processes go on without a client, and what they write is read to nowhere. */
void exec_abandon_all(void);
/* The n-th slot ever used, NULL behind the last; check the state. */
struct exec *exec_at(unsigned index);
unsigned exec_count_live(void);
static inline bool exec_is_running(const struct exec *exec) {
  return exec->state != EXEC_FREE && exec->state != EXEC_ENDED;
}

/* exec.c: life and death. */
int exec_start_all(const struct exec_client *client);
/* Returns 0, or an errno and in `step` what could not be done. */
int exec_start(const struct exec_request *spec, struct connection *client, struct exec **out);
/* A child of PID 1 ended. False where it is no command. */
bool exec_child_ended(pid_t pid, int wait_status, const struct rusage *usage);
void exec_child_stopped(pid_t pid);
/* One that is stopped goes on with it, as with any signal that a person sends to a command. */
void exec_signal(struct exec *exec, int signo);
/* Milliseconds until the next deadline, -1 without one. */
int exec_next_deadline_ms(void);
void exec_check_deadlines(void);
/* Groups whose main process is gone may have become empty. */
void exec_check_groups(void);

/* exec_streams.c: bytes between the command and the rings. */
extern const struct exec_client *exec_client; /* what all three tell; from exec_start_all */
void exec_streams_start(struct exec *exec, int input, int output, int error);
void exec_streams_drain(struct exec *exec);
void exec_streams_close(struct exec *exec);
void exec_streams_abandon(struct exec *exec);
void exec_input_push(struct exec *exec);
void exec_input_end(struct exec *exec);
void exec_resize(struct exec *exec, uint16_t rows, uint16_t columns);
/* What it wrote until its stop, its screen for example, comes before the word. */
void exec_stop_note(struct exec *exec);
bool exec_stop_may_be_told(struct exec *exec);
/* Room has come: reads again. */
void stream_acknowledge(struct stream *stream, uint64_t offset);

#endif
