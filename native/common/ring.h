/*
 * A ring of GUEST_WINDOW_BYTES whose positions are absolute stream offsets: `start` is the oldest byte kept, `end`
 * the next to come. The owner provides the memory.
 */
#ifndef SQUASH_RING_H
#define SQUASH_RING_H
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/frames.gen.h"

struct ring {
  uint8_t *bytes;
  uint64_t start;
  uint64_t end;
};

static inline size_t ring_used(const struct ring *ring) { return (size_t)(ring->end - ring->start); }
static inline size_t ring_room(const struct ring *ring) { return GUEST_WINDOW_BYTES - ring_used(ring); }

/* Describes the bytes `offset` … `offset + length` in at most two pieces; returns how many. */
int ring_spans(const struct ring *ring, uint64_t offset, size_t length, struct iovec spans[2]);
/* Appends bytes for which the caller has checked `ring_room`. */
void ring_append(struct ring *ring, const uint8_t *bytes, size_t length);

#endif
