/* A frame of the egress process, parsed into a value that can't be wrong. */
#ifndef SQUASH_RELAY_COMMAND_H
#define SQUASH_RELAY_COMMAND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command {
  uint8_t type; /* FRAME_CONNECTION_HOLD, _RELEASE, _RESET or FRAME_DNS_ANSWER */
  uint64_t connection;
  uint32_t bytes_max; /* 1 … RELAY_FIRST_BYTES_MAX */
  uint32_t offset;    /* below bytes_max */
  const uint8_t *peer;
  size_t peer_length;
  const uint8_t *message;
  size_t message_length;
};

/* Returns false where the frame is not one of these four or not made as they are. */
bool command_parse(struct command *command, uint8_t type, uint8_t *payload, size_t length);

#endif
