/* Any bytes as a dial: what passes has an address of one of two lengths, a port, and a bounded time. */
#include <stdlib.h>
#include <string.h>

#include "common/frame.h"
#include "launch/dial_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct dial_request request;
  if (size == 0) return 0;
  static const uint8_t types[] = {FRAME_DIAL_OUT, FRAME_STREAM_OUT, FRAME_EGRESS_ATTACH};
  size_t length = size - 1;
  uint8_t *payload = malloc(length == 0 ? 1 : length);
  memcpy(payload, data + 1, length);
  if (dial_request_parse(&request, types[data[0] % sizeof types], payload, length)) {
    if (request.instance == 0 || request.type == FRAME_EGRESS_ATTACH) abort();
    bool is_address = request.address_length == 4 || request.address_length == 16;
    if (request.type == FRAME_DIAL_OUT && (!is_address || request.port == 0 || request.timeout_ms > DIAL_MS_MAX)) abort();
  }
  free(payload);
  return 0;
}
