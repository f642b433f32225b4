/* The ring: absolute offsets over its seam, never more than its size. */
#include <stdlib.h>
#include <string.h>

#include "common/ring.h"
#include "tests/check.h"

static uint8_t byte_at(uint64_t offset) {
  return (uint8_t)(offset * 31 + offset / 251);
}

static void append(struct ring *ring, size_t length) {
  uint8_t *bytes = malloc(length == 0 ? 1 : length);
  for (size_t i = 0; i < length; i++) bytes[i] = byte_at(ring->end + i);
  ring_append(ring, bytes, length);
  free(bytes);
}

static void check_content(const struct ring *ring) {
  struct iovec spans[2];
  int count = ring_spans(ring, ring->start, ring_used(ring), spans);
  uint64_t offset = ring->start;
  for (int i = 0; i < count; i++) {
    const uint8_t *bytes = spans[i].iov_base;
    for (size_t n = 0; n < spans[i].iov_len; n++, offset++) {
      if (bytes[n] != byte_at(offset)) {
        CHECK_NAMED(false, "a byte of the ring is another's");
        return;
      }
    }
  }
  CHECK(offset == ring->end);
}

int main(void) {
  struct ring ring = {.bytes = malloc(GUEST_WINDOW_BYTES)};
  CHECK(ring_used(&ring) == 0 && ring_room(&ring) == GUEST_WINDOW_BYTES);
  struct iovec spans[2];
  CHECK(ring_spans(&ring, 0, 0, spans) == 0);
  for (unsigned step = 1; step < 4000; step++) {
    size_t put = (step * 7919u) % (ring_room(&ring) + 1);
    append(&ring, put);
    check_content(&ring);
    CHECK(ring_used(&ring) + ring_room(&ring) == GUEST_WINDOW_BYTES);
    ring.start += (step * 104729u) % (ring_used(&ring) + 1);
  }
  ring.start = ring.end;
  append(&ring, GUEST_WINDOW_BYTES);
  check_content(&ring);
  CHECK(ring_room(&ring) == 0);
  /* Far beyond 32 bits, where a long-running command gets to. */
  ring.start = ring.end = INTEGER_MAX - GUEST_WINDOW_BYTES / 2;
  append(&ring, GUEST_WINDOW_BYTES / 2);
  check_content(&ring);
  free(ring.bytes);
  return check_summary();
}
