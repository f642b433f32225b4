/* The C codec against the shared vectors, reading and writing; and the descriptors' small promises. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "tests/check.h"
#include "tests/vectors.gen.h"

enum { INPUT_BYTES_MAX = 131072 };

static uint8_t nibble(char digit) {
  return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static size_t from_hex(const char *hex, uint8_t *out) {
  size_t length = strlen(hex) / 2;
  for (size_t i = 0; i < length; i++) out[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
  return length;
}

/* The verdict on a byte string, as the TypeScript decoder gives it. The copy makes ASan see any read behind it. */
static const char *verdict(const uint8_t *input, size_t length) {
  for (size_t at = 0; at < length;) {
    struct frame_header header;
    if (length - at < FRAME_HEADER_BYTES) return "truncated";
    enum frame_fault fault = frame_header_parse(input + at, &header);
    if (fault != FRAME_FINE) return frame_fault_text(fault);
    at += FRAME_HEADER_BYTES;
    if (length - at < header.length) return "truncated";
    uint8_t *payload = malloc(header.length == 0 ? 1 : header.length);
    memcpy(payload, input + at, header.length);
    at += header.length;
    struct field_reader reader;
    field_reader_start(&reader, payload, header.length);
    if (!frame_type_is_data(header.type)) {
      for (struct field field; field_next(&reader, &field);) continue;
    }
    free(payload);
    if (reader.fault != FRAME_FINE) return frame_fault_text(reader.fault);
  }
  return "fine";
}

static void check_fields(uint8_t *payload, size_t length, const struct vector_frame *expected) {
  static uint8_t bytes[INPUT_BYTES_MAX];
  struct field_reader reader;
  field_reader_start(&reader, payload, length);
  unsigned count = 0;
  for (struct field field; field_next(&reader, &field); count++) {
    CHECK(count < expected->count);
    const struct vector_field *wanted = &expected->fields[count];
    CHECK(field.tag == wanted->tag);
    if (wanted->hex == NULL) {
      CHECK(field.number == wanted->number);
    } else {
      CHECK(field.length == from_hex(wanted->hex, bytes));
      CHECK(memcmp(field.bytes, bytes, field.length) == 0);
    }
  }
  CHECK(count == expected->count);
  CHECK(reader.fault == FRAME_FINE);
}

static void check_reading(const struct valid_vector *vector) {
  static uint8_t input[INPUT_BYTES_MAX], data[INPUT_BYTES_MAX];
  size_t length = from_hex(vector->hex, input), at = 0;
  CHECK(strcmp(verdict(input, length), "fine") == 0);
  for (unsigned i = 0; i < vector->count; i++) {
    const struct vector_frame *expected = &vector->frames[i];
    struct frame_header header;
    CHECK(frame_header_parse(input + at, &header) == FRAME_FINE);
    at += FRAME_HEADER_BYTES;
    CHECK(header.type == expected->type);
    CHECK(frame_type_is_data(header.type) == (expected->data != NULL));
    if (expected->data != NULL) {
      CHECK(header.length == from_hex(expected->data, data));
      CHECK(memcmp(input + at, data, header.length) == 0);
    } else {
      check_fields(input + at, header.length, expected);
    }
    at += header.length;
  }
  CHECK(at == length);
}

static size_t write_frame(const struct vector_frame *frame, uint8_t *out, size_t capacity) {
  static uint8_t bytes[INPUT_BYTES_MAX];
  if (frame->data != NULL) {
    size_t length = from_hex(frame->data, out + FRAME_HEADER_BYTES);
    frame_header_write(out, frame->type, (uint32_t)length);
    return FRAME_HEADER_BYTES + length;
  }
  struct frame_writer writer = frame_writer_on(out, capacity);
  frame_begin(&writer, frame->type);
  for (unsigned i = 0; i < frame->count; i++) {
    const struct vector_field *field = &frame->fields[i];
    if (field->hex == NULL) frame_integer(&writer, (enum field_tag)field->tag, field->number);
    else frame_bytes(&writer, (enum field_tag)field->tag, bytes, from_hex(field->hex, bytes));
  }
  return frame_finish(&writer);
}

static void check_writing(const struct valid_vector *vector) {
  static uint8_t expected[INPUT_BYTES_MAX], written[INPUT_BYTES_MAX];
  size_t length = from_hex(vector->hex, expected), at = 0;
  for (unsigned i = 0; i < vector->count; i++) {
    at += write_frame(&vector->frames[i], written + at, sizeof written - at);
  }
  CHECK(at == length);
  CHECK(memcmp(written, expected, length) == 0);
}

static void check_refusals(void) {
  static uint8_t input[INPUT_BYTES_MAX];
  for (size_t i = 0; i < sizeof invalid_vectors / sizeof invalid_vectors[0]; i++) {
    const struct invalid_vector *vector = &invalid_vectors[i];
    size_t length = from_hex(vector->hex, input);
    for (unsigned n = 0; n < vector->times; n++) length += from_hex(vector->repeat, input + length);
    CHECK_NAMED(strcmp(verdict(input, length), vector->fault) == 0, vector->name);
  }
}

static void check_writer_bounds(void) {
  uint8_t buffer[32];
  for (size_t capacity = 0; capacity <= sizeof buffer; capacity++) {
    struct frame_writer writer = frame_writer_on(buffer, capacity);
    frame_begin(&writer, FRAME_OK);
    frame_text(&writer, FIELD_MESSAGE, "0123456789");
    size_t wanted = FRAME_HEADER_BYTES + 6 + 10;
    CHECK(frame_finish(&writer) == (capacity < wanted ? 0 : wanted));
  }
}

static void check_descriptors(void) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  char text[8] = "";
  CHECK(write_whole(ends[0], "abcd", 4) == 0);
  CHECK(read_whole(ends[1], text, 4) == 1 && memcmp(text, "abcd", 4) == 0);
  CHECK(write_whole(ends[0], "ab", 2) == 0);
  {
    cleanup_fd closes = take_fd(&ends[0]);
    CHECK(closes >= 0 && ends[0] == -1);
  }
  CHECK(read_whole(ends[1], text, 4) == -1 && errno == EPIPE);
  CHECK(read_whole(ends[1], text, 4) == 0);
  CHECK(write_whole(ends[1], "x", 1) == -1 && errno == EPIPE);
  CHECK(set_blocking(ends[1], false) == 0 && set_close_on_exec(ends[1], false) == 0);
  close_fd(&ends[1]);
  CHECK(ends[1] == -1);
}

int main(void) {
  for (size_t i = 0; i < sizeof valid_vectors / sizeof valid_vectors[0]; i++) {
    check_reading(&valid_vectors[i]);
    check_writing(&valid_vectors[i]);
  }
  check_refusals();
  check_writer_bounds();
  check_descriptors();
  return check_summary();
}
