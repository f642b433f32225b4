/* Any bytes as a frame of the egress process: what passes is a command whose every part lies inside the payload. */
#include <stdlib.h>
#include <string.h>

#include "common/frame.h"
#include "relay/command.h"
#include "relay/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const uint8_t *bytes, size_t length) {
  volatile uint8_t sum = 0;
  for (size_t i = 0; i < length; i++) sum = (uint8_t)(sum + bytes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct command command;
  if (size == 0) return 0;
  /* The first byte chooses among the four and one that is none. */
  static const uint8_t types[] = {FRAME_CONNECTION_HOLD, FRAME_CONNECTION_RELEASE, FRAME_CONNECTION_RESET,
                                  FRAME_DNS_ANSWER, FRAME_CONNECTION_OPEN};
  size_t length = size - 1;
  uint8_t *payload = malloc(length == 0 ? 1 : length);
  memcpy(payload, data + 1, length);
  bool passed = command_parse(&command, types[data[0] % sizeof types], payload, length);
  if (passed && command.type == FRAME_DNS_ANSWER) {
    read_all(command.peer, command.peer_length);
    read_all(command.message, command.message_length);
  }
  if (passed && command.type == FRAME_CONNECTION_HOLD &&
      (command.bytes_max == 0 || command.bytes_max > RELAY_FIRST_BYTES_MAX || command.offset >= command.bytes_max)) {
    abort();
  }
  if (passed && command.type == FRAME_CONNECTION_OPEN) abort();
  free(payload);
  return 0;
}
