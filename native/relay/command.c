/* Parsing of what the egress process says: see command.h. Strict, although it is ours: both must be of one version. */
#include "relay/command.h"

#include "common/frame.h"
#include "relay/state.h"

struct form {
  uint8_t type;
  unsigned required;
  unsigned optional;
};

enum { HAS_CONNECTION = 1, HAS_BYTES_MAX = 2, HAS_OFFSET = 4, HAS_PEER = 8, HAS_MESSAGE = 16 };

static const struct form forms[] = {
    {FRAME_CONNECTION_HOLD, HAS_CONNECTION | HAS_BYTES_MAX, HAS_OFFSET},
    {FRAME_CONNECTION_RELEASE, HAS_CONNECTION, 0},
    {FRAME_CONNECTION_RESET, HAS_CONNECTION, 0},
    {FRAME_DNS_ANSWER, HAS_PEER | HAS_MESSAGE, 0},
};

/* Which field it is, or 0 where it is none of a command's or its value is out of range. */
static unsigned keep(struct command *command, const struct field *field) {
  switch (field->tag) {
    case FIELD_CONNECTION: command->connection = field->number; return HAS_CONNECTION;
    case FIELD_BYTES_MAX:
      if (field->number == 0) return 0;
      command->bytes_max = field->number > RELAY_FIRST_BYTES_MAX ? RELAY_FIRST_BYTES_MAX : (uint32_t)field->number;
      return HAS_BYTES_MAX;
    case FIELD_OFFSET:
      if (field->number >= RELAY_FIRST_BYTES_MAX) return 0;
      command->offset = (uint32_t)field->number;
      return HAS_OFFSET;
    case FIELD_PEER:
      command->peer = field->bytes;
      command->peer_length = field->length;
      return HAS_PEER;
    case FIELD_MESSAGE:
      command->message = field->bytes;
      command->message_length = field->length;
      return HAS_MESSAGE;
    default: return 0;
  }
}

bool command_parse(struct command *command, uint8_t type, uint8_t *payload, size_t length) {
  const struct form *form = NULL;
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if (forms[i].type == type) form = &forms[i];
  }
  if (form == NULL) return false;
  *command = (struct command){.type = type};
  struct field_reader reader;
  struct field field;
  unsigned seen = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    unsigned kept = keep(command, &field);
    if (kept == 0 || (seen & kept) != 0 || (kept & (form->required | form->optional)) == 0) return false;
    seen |= kept;
  }
  if (reader.fault != FRAME_FINE || (seen & form->required) != form->required) return false;
  return (seen & HAS_BYTES_MAX) == 0 || command->offset < command->bytes_max;
}
