/* The frame codec: see frame.h. Bytes are put together by shifts, so the host's byte order does not matter. */
#include "common/frame.h"

#include <string.h>

enum { FIELD_HEADER_BYTES = 6, INTEGER_BYTES = 8 };

static uint16_t little_endian_16(const uint8_t bytes[2]) {
  return (uint16_t)(bytes[0] | bytes[1] << 8);
}

uint32_t little_endian_32(const uint8_t bytes[4]) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint64_t little_endian_64(const uint8_t bytes[8]) {
  return (uint64_t)little_endian_32(bytes) | (uint64_t)little_endian_32(bytes + 4) << 32;
}

static void put_little_endian(uint8_t *out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> (8 * i));
}

enum frame_fault frame_header_parse(const uint8_t bytes[FRAME_HEADER_BYTES], struct frame_header *header) {
  header->length = little_endian_32(bytes);
  header->type = bytes[4];
  if (!frame_type_is_known(header->type)) return FRAME_FAULT_TYPE;
  if (bytes[5] != 0 || bytes[6] != 0 || bytes[7] != 0) return FRAME_FAULT_RESERVED;
  uint32_t max = frame_type_is_data(header->type) ? FRAME_DATA_BYTES_MAX : FRAME_PAYLOAD_BYTES_MAX;
  return header->length > max ? FRAME_FAULT_LENGTH : FRAME_FINE;
}

void frame_header_write(uint8_t bytes[FRAME_HEADER_BYTES], uint8_t type, uint32_t length) {
  put_little_endian(bytes, length, 4);
  put_little_endian(bytes + 4, type, 4);
}

const char *frame_fault_text(enum frame_fault fault) {
  static const char *const texts[] = {
      [FRAME_FINE] = "fine",         [FRAME_FAULT_LENGTH] = "length", [FRAME_FAULT_TYPE] = "type",
      [FRAME_FAULT_RESERVED] = "reserved", [FRAME_FAULT_FIELD] = "field",   [FRAME_FAULT_TAG] = "tag",
      [FRAME_FAULT_INTEGER] = "integer",   [FRAME_FAULT_COUNT] = "count",
  };
  return texts[fault];
}

void field_reader_start(struct field_reader *reader, uint8_t *payload, size_t length) {
  *reader = (struct field_reader){.next = payload, .end = payload + length};
}

static bool field_fault(struct field_reader *reader, enum frame_fault fault) {
  reader->fault = fault;
  return false;
}

bool field_next(struct field_reader *reader, struct field *field) {
  size_t left = (size_t)(reader->end - reader->next);
  if (left == 0 || reader->fault != FRAME_FINE) return false;
  if (reader->count == FRAME_FIELDS_MAX) return field_fault(reader, FRAME_FAULT_COUNT);
  if (left < FIELD_HEADER_BYTES) return field_fault(reader, FRAME_FAULT_FIELD);
  field->tag = little_endian_16(reader->next);
  field->length = little_endian_32(reader->next + 2);
  field->bytes = reader->next + FIELD_HEADER_BYTES;
  field->number = 0;
  if (!field_tag_is_known(field->tag)) return field_fault(reader, FRAME_FAULT_TAG);
  if (field->length > left - FIELD_HEADER_BYTES) return field_fault(reader, FRAME_FAULT_FIELD);
  if (field_tag_is_integer(field->tag)) {
    if (field->length != INTEGER_BYTES) return field_fault(reader, FRAME_FAULT_INTEGER);
    field->number = little_endian_64(field->bytes);
    if (field->number > INTEGER_MAX) return field_fault(reader, FRAME_FAULT_INTEGER);
  }
  reader->next = field->bytes + field->length;
  reader->count++;
  return true;
}

/* Room for `length` more bytes, or NULL once anything did not fit. */
static uint8_t *take(struct frame_writer *writer, size_t length) {
  if (writer->overflowed || length > writer->capacity - writer->used) {
    writer->overflowed = true;
    return NULL;
  }
  uint8_t *at = writer->buffer + writer->used;
  writer->used += length;
  return at;
}

void frame_begin(struct frame_writer *writer, uint8_t type) {
  writer->used = 0;
  writer->overflowed = false;
  uint8_t *header = take(writer, FRAME_HEADER_BYTES);
  if (header != NULL) frame_header_write(header, type, 0);
}

void frame_bytes(struct frame_writer *writer, enum field_tag tag, const void *bytes, size_t length) {
  if (length > FRAME_PAYLOAD_BYTES_MAX) {
    writer->overflowed = true;
    return;
  }
  uint8_t *at = take(writer, FIELD_HEADER_BYTES + length);
  if (at == NULL) return;
  put_little_endian(at, (uint64_t)tag, 2);
  put_little_endian(at + 2, length, 4);
  if (length > 0) memcpy(at + FIELD_HEADER_BYTES, bytes, length);
}

void frame_integer(struct frame_writer *writer, enum field_tag tag, uint64_t value) {
  uint8_t bytes[INTEGER_BYTES];
  put_little_endian(bytes, value, INTEGER_BYTES);
  frame_bytes(writer, tag, bytes, sizeof bytes);
}

void frame_text(struct frame_writer *writer, enum field_tag tag, const char *text) {
  frame_bytes(writer, tag, text, strlen(text));
}

size_t frame_finish(struct frame_writer *writer) {
  size_t payload = writer->used - (writer->used < FRAME_HEADER_BYTES ? writer->used : FRAME_HEADER_BYTES);
  if (writer->overflowed || payload > FRAME_PAYLOAD_BYTES_MAX) return 0;
  put_little_endian(writer->buffer, payload, 4);
  return writer->used;
}
