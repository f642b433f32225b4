/*
 * The frame codec of both C programs: header, fields, and a writer that can't overrun.
 *
 * Whoever sends frames is not trusted to have made them well: `frame_header_parse` and `fields_check` are the
 * edge, and code behind them reads fields without checking lengths again. contract/guest/vectors.json holds what
 * must pass and what must not; the TypeScript codec gives the same verdicts.
 */
#ifndef SQUASH_FRAME_H
#define SQUASH_FRAME_H
#include <stddef.h>
#include <stdint.h>

#include "common/frames.gen.h"

enum frame_fault {
  FRAME_FINE = 0,
  FRAME_FAULT_LENGTH,   /* payload longer than FRAME_PAYLOAD_BYTES_MAX, or a data frame above FRAME_DATA_BYTES_MAX */
  FRAME_FAULT_TYPE,     /* no such frame */
  FRAME_FAULT_RESERVED, /* the three zero bytes are not zero */
  FRAME_FAULT_FIELD,    /* a field reaches behind the payload's end */
  FRAME_FAULT_TAG,      /* no such field */
  FRAME_FAULT_INTEGER,  /* not 8 bytes, or above INTEGER_MAX */
  FRAME_FAULT_COUNT,    /* more than FRAME_FIELDS_MAX fields */
};

struct frame_header {
  uint32_t length;
  uint8_t type;
};

enum frame_fault frame_header_parse(const uint8_t bytes[FRAME_HEADER_BYTES], struct frame_header *header);
void frame_header_write(uint8_t bytes[FRAME_HEADER_BYTES], uint8_t type, uint32_t length);
const char *frame_fault_text(enum frame_fault fault);

struct field {
  uint16_t tag;
  uint32_t length;
  uint8_t *bytes;  /* into the payload; not terminated */
  uint64_t number; /* for integers, else 0 */
};

/* Walks a payload. `field_next` returns false at the end or at the first fault, which is then in `fault`. */
struct field_reader {
  uint8_t *next;
  uint8_t *end;
  unsigned count;
  enum frame_fault fault;
};

void field_reader_start(struct field_reader *reader, uint8_t *payload, size_t length);
bool field_next(struct field_reader *reader, struct field *field);

/*
 * Writes one frame into a buffer of fixed size. Past its end nothing is written and `overflowed` says so: callers
 * check once, at the end.
 */
struct frame_writer {
  uint8_t *buffer;
  size_t capacity;
  size_t used;
  bool overflowed;
};

void frame_begin(struct frame_writer *writer, uint8_t type);
void frame_integer(struct frame_writer *writer, enum field_tag tag, uint64_t value);
void frame_bytes(struct frame_writer *writer, enum field_tag tag, const void *bytes, size_t length);
void frame_text(struct frame_writer *writer, enum field_tag tag, const char *text);
/* Sets the header's length. Returns the bytes of the whole frame, 0 where it did not fit. */
size_t frame_finish(struct frame_writer *writer);

static inline struct frame_writer frame_writer_on(void *buffer, size_t capacity) {
  return (struct frame_writer){.buffer = (uint8_t *)buffer, .capacity = capacity};
}

uint32_t little_endian_32(const uint8_t bytes[4]);
uint64_t little_endian_64(const uint8_t bytes[8]);

#endif
