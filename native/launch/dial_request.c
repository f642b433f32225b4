/* Parsing of what the egress process asks for: see dial_request.h. */
#include "launch/dial_request.h"

#include <string.h>

#include "common/frame.h"

enum { HAS_INSTANCE = 1, HAS_CONNECTION = 2, HAS_ADDRESS = 4, HAS_PORT = 8, HAS_TIMEOUT = 16 };

/* Which field it is, or 0 where it is none of a dial's or its value is out of range. */
static unsigned keep(struct dial_request *request, const struct field *field) {
  switch (field->tag) {
    case FIELD_INSTANCE: request->instance = field->number; return field->number > 0 ? HAS_INSTANCE : 0;
    case FIELD_CONNECTION: request->connection = field->number; return HAS_CONNECTION;
    case FIELD_ADDRESS:
      if (field->length != 4 && field->length != 16) return 0;
      memcpy(request->address, field->bytes, field->length);
      request->address_length = (uint8_t)field->length;
      return HAS_ADDRESS;
    case FIELD_PORT:
      request->port = (uint16_t)field->number;
      return field->number > 0 && field->number <= UINT16_MAX ? HAS_PORT : 0;
    case FIELD_TIMEOUT_MS:
      request->timeout_ms = field->number > DIAL_MS_MAX ? DIAL_MS_MAX : (uint32_t)field->number;
      return HAS_TIMEOUT;
    default: return 0;
  }
}

bool dial_request_parse(struct dial_request *request, uint8_t type, uint8_t *payload, size_t length) {
  unsigned wanted = HAS_INSTANCE | HAS_CONNECTION;
  if (type == FRAME_DIAL_OUT) wanted |= HAS_ADDRESS | HAS_PORT | HAS_TIMEOUT;
  else if (type != FRAME_STREAM_OUT) return false;
  *request = (struct dial_request){.type = type};
  struct field_reader reader;
  struct field field;
  unsigned seen = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    unsigned kept = keep(request, &field);
    if (kept == 0 || (seen & kept) != 0 || (kept & wanted) == 0) return false;
    seen |= kept;
  }
  return reader.fault == FRAME_FINE && seen == wanted;
}
