/* First frames: see first_frame.h. */
#include "init/first_frame.h"

#include <errno.h>
#include <unistd.h>

#include "init/connection.h"
#include "init/dial.h"
#include "init/exec.h"
#include "init/exec_connection.h"
#include "init/machine.h"
#include "init/renew.h"
#include "init/request.h"
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

static void take_memory(struct connection *connection, uint8_t *payload, size_t length) {
  static const uint8_t fields[] = {FIELD_BYTES, 0};
  uint64_t bytes = 0;
  const char *wrong = request_parse(fields, payload, length);
  if (wrong == NULL && !request_integer(FIELD_BYTES, 0, INTEGER_MAX, &bytes)) wrong = "that is too much";
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  if (machine_take_memory(bytes) != 0) {
    connection_refuse(connection, "bad_request", errno, "what they use");
    return;
  }
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
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
  else if (type == FRAME_GUEST_MEMORY && machine_is()) take_memory(connection, payload, length);
  else if (worker_serves(type)) worker_request(connection, type, payload, length);
  else connection_refuse(connection, "bad_request", 0, "a connection can't begin with this frame");
}
