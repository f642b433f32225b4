/* A client of the launcher: one request, then answers. Only the daemon's own id gets this far. */
#ifndef SQUASH_LAUNCH_CONNECTION_H
#define SQUASH_LAUNCH_CONNECTION_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

struct connection {
  struct connection *next;
  struct source source;
  int64_t deadline_ms; /* of an unfinished request; 0 afterwards */
  uint8_t header[FRAME_HEADER_BYTES];
  size_t header_used;
  uint8_t *payload;
  size_t payload_used;
  struct frame_header parsed;
  struct request request;
  int descriptor; /* that came along, or -1 */
  bool has_request;
  bool is_watching;    /* wants events */
  bool is_queued;      /* waits for a free worker */
  uint64_t start_wait; /* waits until this instance runs or has failed; 0: none */
  uint64_t ended_wait; /* waits until this instance is gone; 0: none */
  uint64_t still_wait; /* waits until this instance stands still; 0: none */
};

int connections_listen(struct launcher *launcher);
void connection_close(struct launcher *launcher, struct connection *connection);
/* Closes those whose request did not arrive in time. Returns the next deadline, 0 where there is none. */
int64_t connections_expire(struct launcher *launcher);

/* Each sends one frame; a client that does not read what fits its socket's buffer is dropped. */
void connection_send(struct connection *connection, struct frame_writer *writer);
/* These end the connection. */
void connection_ok(struct launcher *launcher, struct connection *connection);
void connection_fault(struct launcher *launcher, struct connection *connection, const struct fault *fault);

/* The error frame of a fault, for launcher and workers alike. */
void write_fault_frame(struct frame_writer *writer, const struct fault *fault);

#endif
