/* `dialOut` and `streamOut`, parsed into a value that can't be wrong. */
#ifndef SQUASH_LAUNCH_DIAL_REQUEST_H
#define SQUASH_LAUNCH_DIAL_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  DIAL_REQUEST_BYTES_MAX = 256,
  /* Longer than any connect: the kernel itself gives up after about two minutes. */
  DIAL_MS_MAX = 180000,
};

struct dial_request {
  uint8_t type; /* FRAME_DIAL_OUT or FRAME_STREAM_OUT */
  uint64_t instance;
  uint64_t connection;
  /* Of FRAME_DIAL_OUT. */
  uint8_t address[16];
  uint8_t address_length; /* 4 or 16 */
  uint16_t port;
  uint32_t timeout_ms;
};

/* Returns false where the frame is neither of the two or not made as they are. */
bool dial_request_parse(struct dial_request *request, uint8_t type, uint8_t *payload, size_t length);

#endif
