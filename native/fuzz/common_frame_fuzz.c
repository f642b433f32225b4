/* Any bytes through the frame decoder: nothing is read behind the payload, and every verdict is one of the known. */
#include <stdlib.h>
#include <string.h>

#include "common/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct frame_header header;
  if (size < FRAME_HEADER_BYTES || frame_header_parse(data, &header) != FRAME_FINE) return 0;
  size_t length = size - FRAME_HEADER_BYTES;
  if (header.length < length) length = header.length;
  uint8_t *payload = malloc(length == 0 ? 1 : length);
  memcpy(payload, data + FRAME_HEADER_BYTES, length);
  struct field_reader reader;
  field_reader_start(&reader, payload, length);
  uint64_t sum = 0;
  for (struct field field; field_next(&reader, &field);) {
    for (uint32_t i = 0; i < field.length; i++) sum += field.bytes[i];
    if (field.number > INTEGER_MAX) abort();
  }
  if (frame_fault_text(reader.fault) == NULL) abort();
  free(payload);
  return sum == UINT64_MAX ? 1 : 0;
}
