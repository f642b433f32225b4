/* The ring: see ring.h. */
#include "common/ring.h"

#include <string.h>

int ring_spans(const struct ring *ring, uint64_t offset, size_t length, struct iovec spans[2]) {
  if (length == 0) return 0;
  size_t at = (size_t)(offset % GUEST_WINDOW_BYTES);
  size_t first = GUEST_WINDOW_BYTES - at;
  if (first > length) first = length;
  spans[0] = (struct iovec){.iov_base = ring->bytes + at, .iov_len = first};
  if (first == length) return 1;
  spans[1] = (struct iovec){.iov_base = ring->bytes, .iov_len = length - first};
  return 2;
}

void ring_append(struct ring *ring, const uint8_t *bytes, size_t length) {
  struct iovec spans[2];
  int count = ring_spans(ring, ring->end, length, spans);
  for (int i = 0; i < count; i++) {
    memcpy(spans[i].iov_base, bytes, spans[i].iov_len);
    bytes += spans[i].iov_len;
  }
  ring->end += length;
}
