/* Which frames of the egress process are commands. */
#include <string.h>

#include "common/frame.h"
#include "relay/command.h"
#include "relay/state.h"
#include "tests/check.h"

static uint8_t buffer[1024];
static struct frame_writer writer;

static bool passes(struct command *command) {
  size_t length = frame_finish(&writer);
  struct frame_header header;
  if (length == 0 || frame_header_parse(buffer, &header) != FRAME_FINE) return false;
  return command_parse(command, header.type, buffer + FRAME_HEADER_BYTES, header.length);
}

static void begin(uint8_t type) {
  writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, type);
}

static void hold_with(uint64_t connection, uint64_t bytes_max) {
  begin(FRAME_CONNECTION_HOLD);
  frame_integer(&writer, FIELD_CONNECTION, connection);
  frame_integer(&writer, FIELD_BYTES_MAX, bytes_max);
}

static void holds_are_bounded(void) {
  struct command command;
  hold_with(7, 100);
  CHECK(passes(&command) && command.connection == 7 && command.bytes_max == 100 && command.offset == 0);
  hold_with(7, 1000000);
  CHECK(passes(&command) && command.bytes_max == RELAY_FIRST_BYTES_MAX);
  hold_with(7, 0);
  CHECK(!passes(&command));
  hold_with(7, 100);
  frame_integer(&writer, FIELD_OFFSET, 99);
  CHECK(passes(&command) && command.offset == 99);
  hold_with(7, 100);
  frame_integer(&writer, FIELD_OFFSET, 100);
  CHECK(!passes(&command));
  hold_with(7, 1000000);
  frame_integer(&writer, FIELD_OFFSET, RELAY_FIRST_BYTES_MAX);
  CHECK(!passes(&command));
  begin(FRAME_CONNECTION_HOLD);
  frame_integer(&writer, FIELD_CONNECTION, 1);
  CHECK(!passes(&command));
}

static void fields_are_those_of_the_frame(void) {
  struct command command;
  begin(FRAME_CONNECTION_RELEASE);
  CHECK(!passes(&command));
  frame_integer(&writer, FIELD_CONNECTION, INTEGER_MAX);
  CHECK(passes(&command) && command.connection == INTEGER_MAX);
  frame_integer(&writer, FIELD_CONNECTION, 2);
  CHECK(!passes(&command));
  begin(FRAME_CONNECTION_RESET);
  frame_integer(&writer, FIELD_CONNECTION, 2);
  frame_integer(&writer, FIELD_BYTES_MAX, 2);
  CHECK(!passes(&command));
  begin(FRAME_DNS_ANSWER);
  frame_bytes(&writer, FIELD_PEER, "peer", 4);
  frame_bytes(&writer, FIELD_MESSAGE, "", 0);
  CHECK(passes(&command) && command.peer_length == 4 && command.message_length == 0);
  CHECK(memcmp(command.peer, "peer", 4) == 0);
  begin(FRAME_DNS_QUERY);
  frame_bytes(&writer, FIELD_PEER, "peer", 4);
  frame_bytes(&writer, FIELD_MESSAGE, "", 0);
  CHECK(!passes(&command));
  begin(FRAME_CONNECTION_RELEASE);
  frame_text(&writer, FIELD_NAME, "x");
  CHECK(!passes(&command));
}

int main(void) {
  holds_are_bounded();
  fields_are_those_of_the_frame();
  return check_summary();
}
