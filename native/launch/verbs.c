/*
 * Dispatch of requests. Quick verbs are answered here; slow ones go to a worker that answers the client itself; start,
 * stop and freeze leave the connection waiting and are answered from sandbox_start.c, sandbox_end.c and freeze.c; the egress channel
 * keeps it.
 */
#include "launch/verbs.h"

#include <errno.h>

#include "launch/egress.h"
#include "launch/freeze.h"
#include "launch/helper_seat.h"
#include "launch/sandbox.h"
#include "launch/sandbox_end.h"
#include "launch/sandbox_start.h"
#include "launch/stillness.h"
#include "launch/worker.h"

static void verb_start(struct launcher *launcher, struct connection *connection) {
  struct fault fault = {0};
  connection->start_wait = connection->request.instance;
  if (sandbox_start(launcher, &connection->request, &fault) == 0) return;
  connection_fault(launcher, connection, &fault);
}

static void verb_stop(struct launcher *launcher, struct connection *connection) {
  struct sandbox *sandbox = sandbox_by_name(launcher, connection->request.name);
  if (sandbox == NULL) {
    connection_ok(launcher, connection);
    return;
  }
  connection->ended_wait = sandbox->instance;
  sandbox->ends_for_good = connection->request.is_for_good;
  sandbox_end(launcher, sandbox);
}

static void verb_watch(struct launcher *launcher, struct connection *connection) {
  uint8_t buffer[64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_STARTED);
  frame_integer(&writer, FIELD_PROTOCOL, PROTOCOL_VERSION);
  connection->is_watching = true;
  connection_send(connection, &writer);
  /* What began before anybody watched. */
  helper_seat_tell(launcher, connection);
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->room.is_short) sandbox_announce(launcher, at, "upper_short");
    if (at->has_upper_errors) sandbox_announce(launcher, at, "upper_errors");
  }
}

static struct sandbox *running(struct launcher *launcher, struct connection *connection) {
  struct sandbox *sandbox = sandbox_by_name(launcher, connection->request.name);
  if (sandbox != NULL && sandbox->state == SANDBOX_RUNNING) return sandbox;
  struct fault fault;
  errno = 0;
  fault_set(&fault, "sandbox_not_ready", "sandbox \"%s\" does not run", connection->request.name);
  connection_fault(launcher, connection, &fault);
  return NULL;
}

static void verb_freeze(struct launcher *launcher, struct connection *connection) {
  struct sandbox *sandbox = running(launcher, connection);
  if (sandbox != NULL) freeze_begin(launcher, sandbox, connection);
}

static void verb_thaw(struct launcher *launcher, struct connection *connection) {
  struct fault fault = {0};
  struct sandbox *sandbox = running(launcher, connection);
  if (sandbox == NULL) return;
  freeze_yield(launcher, sandbox);
  if (sandbox_thaw(launcher, sandbox, &fault) == 0) {
    connection_ok(launcher, connection);
  } else {
    connection_fault(launcher, connection, &fault);
  }
}

static void verb_pack(struct launcher *launcher, struct connection *connection) {
  struct sandbox *sandbox = sandbox_by_name(launcher, connection->request.name);
  if (sandbox != NULL) freeze_yield(launcher, sandbox);
  worker_run(launcher, connection);
}

static void verb_stats(struct launcher *launcher, struct connection *connection) {
  struct sandbox *sandbox = running(launcher, connection);
  if (sandbox == NULL) return;
  struct cgroup_usage usage;
  if (cgroup_usage(&launcher->cgroups, sandbox->group, &usage) != 0) {
    struct fault fault;
    fault_set(&fault, "launch_failed", "can't measure sandbox \"%s\"", sandbox->name);
    connection_fault(launcher, connection, &fault);
    return;
  }
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_OK);
  frame_integer(&writer, FIELD_BYTES, usage.memory_bytes);
  frame_integer(&writer, FIELD_CPU_US, usage.cpu_us);
  frame_integer(&writer, FIELD_RUNNING, usage.pids);
  frame_integer(&writer, FIELD_OOM_KILLS, usage.oom_kills);
  frame_integer(&writer, FIELD_UPPER_KILLS, sandbox->upper_kills);
  connection_send(connection, &writer);
  connection_close(launcher, connection);
}

static void verb_limit(struct launcher *launcher, struct connection *connection) {
  struct fault fault = {0};
  struct sandbox *sandbox = running(launcher, connection);
  if (sandbox == NULL) return;
  const struct request *request = &connection->request;
  const struct cgroup_limits limits = {request->memory_bytes_max, request->cpu_milli, request->pids_max};
  if (cgroup_limit(&launcher->cgroups, sandbox->group, &limits, &fault) == 0) {
    connection_ok(launcher, connection);
  } else {
    connection_fault(launcher, connection, &fault);
  }
}

static void verb_shutdown(struct launcher *launcher, struct connection *connection) {
  (void)connection; /* Answered by the launcher's last act, when nothing is left. */
  launcher->is_ending = true;
  for (struct sandbox *at = launcher->sandboxes; at != NULL;) {
    struct sandbox *next = at->next;
    sandbox_end(launcher, at);
    at = next;
  }
}

void verb_run(struct launcher *launcher, struct connection *connection) {
  switch (connection->request.type) {
    case FRAME_SANDBOX_START: verb_start(launcher, connection); return;
    case FRAME_SANDBOX_STOP: verb_stop(launcher, connection); return;
    case FRAME_SANDBOX_WATCH: verb_watch(launcher, connection); return;
    case FRAME_SANDBOX_FREEZE: verb_freeze(launcher, connection); return;
    case FRAME_SANDBOX_THAW: verb_thaw(launcher, connection); return;
    case FRAME_IMAGE_PACK: verb_pack(launcher, connection); return;
    case FRAME_SANDBOX_STATS: verb_stats(launcher, connection); return;
    case FRAME_SANDBOX_LIMIT: verb_limit(launcher, connection); return;
    case FRAME_EGRESS_ATTACH: egress_attach(launcher, connection); return;
    case FRAME_HELPER_ATTACH: helper_seat_take(launcher, connection); return;
    case FRAME_SHUTDOWN: verb_shutdown(launcher, connection); return;
    default: worker_run(launcher, connection); return;
  }
}
