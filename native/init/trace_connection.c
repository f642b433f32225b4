/* Lists what was refused: see trace_connection.h. */
#include "init/trace_connection.h"

#include "init/connection.h"
#include "init/request.h"
#include "init/trace_set.h"

static void put_entry(struct connection *connection, const struct traced *entry) {
  struct frame_writer writer =
      frame_writer_on(connection->bulk + connection->bulk_used, connection->bulk_capacity - connection->bulk_used);
  frame_begin(&writer, FRAME_ENTRY);
  frame_bytes(&writer, FIELD_PATH, entry->path, entry->length);
  frame_integer(&writer, FIELD_INTENT, entry->intent);
  frame_integer(&writer, FIELD_CHANGED_US, entry->at_us);
  connection->bulk_used += frame_finish(&writer);
}

void trace_connection_list(struct connection *connection, uint8_t *payload, size_t length) {
  enum { ANSWER_BYTES = 262144, ENTRY_BYTES = GUEST_PATH_BYTES_MAX + 128 };
  static const uint8_t allowed[] = {FIELD_OFFSET, 0};
  uint64_t offset = 0;
  const char *fault = request_parse(allowed, payload, length);
  if (fault != NULL || !request_integer(FIELD_OFFSET, 0, GUEST_TRACED_PATHS_MAX, &offset)) {
    connection_refuse(connection, "bad_request", 0, fault == NULL ? "offset is out of range" : fault);
    return;
  }
  if (!connection_hold_list(connection, ANSWER_BYTES)) return;
  unsigned count = trace_set_count();
  unsigned at = (unsigned)offset;
  for (; at < count && connection->bulk_used < ANSWER_BYTES - 2 * ENTRY_BYTES; at++) put_entry(connection, trace_set_at(at));
  struct frame_writer writer = frame_writer_on(connection->bulk + connection->bulk_used, ENTRY_BYTES);
  frame_begin(&writer, FRAME_END);
  frame_integer(&writer, FIELD_OFFSET, at);
  if (trace_set_is_full()) frame_integer(&writer, FIELD_TRUNCATED, 1);
  connection->bulk_used += frame_finish(&writer);
  connection->kind = CONNECTION_ANSWERED;
  connection_flush(connection);
}
