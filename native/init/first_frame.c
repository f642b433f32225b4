/* First frames: see first_frame.h. */
#include "init/first_frame.h"

#include <unistd.h>

#include "init/connection.h"
#include "init/dial.h"
#include "init/exec.h"
#include "init/exec_connection.h"
#include "init/machine.h"
#include "init/renew.h"
#include "init/trace_connection.h"
#include "init/worker.h"

static void answer_info(struct connection *connection) {
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
  /* Which PID 1 a daemon meets that an earlier one has started. */
  frame_integer(&writer, FIELD_PROTOCOL, PROTOCOL_VERSION);
  frame_integer(&writer, FIELD_RUNNING, exec_count_live());
  frame_integer(&writer, FIELD_PID, (uint64_t)getpid());
  connection_answer(connection, &writer);
}

void first_frame_serve(struct connection *connection, uint8_t *payload, size_t length) {
  uint8_t type = connection->header.type;
  if (type == FRAME_EXEC) exec_connection_request(connection, payload, length);
  else if (type == FRAME_ATTACH) exec_connection_attach(connection, payload, length);
  else if (type == FRAME_EXEC_LIST && length == 0) exec_connection_list(connection);
  else if (type == FRAME_INFO && length == 0) answer_info(connection);
  else if (type == FRAME_PATH_LIST) trace_connection_list(connection, payload, length);
  else if (type == FRAME_DIAL) dial_request(connection, payload, length);
  else if (type == FRAME_GUEST_RENEW && machine_is()) renew_request(connection, payload, length);
  else if (worker_serves(type)) worker_request(connection, type, payload, length);
  else connection_refuse(connection, "bad_request", 0, "a connection can't begin with this frame");
}
