/* Requests: see request.h. */
#include "vmm/request.h"

#include <string.h>

/* Of a Unix socket's name, with what follows it in the guest's (`_1`) and the end. */
enum { SOCKET_PATH_BYTES_MAX = 100, MADE_PATH_BYTES_MAX = 200 };

/* A start's texts and its words stay. */
static char texts[VMM_COMMANDS_BYTES_MAX + 4096];
static size_t texts_used;
static char *words[VMM_COMMANDS_MAX * (VMM_WORDS_MAX + 1)];

/* A copy that ends with NUL; NULL where it holds one, or there is no room. */
static char *keep(const struct field *field) {
  if (field->length >= sizeof texts - texts_used || memchr(field->bytes, 0, field->length) != NULL) return NULL;
  char *text = texts + texts_used;
  memcpy(text, field->bytes, field->length);
  text[field->length] = '\0';
  texts_used += field->length + 1;
  return text;
}

static const char *keep_socket(const struct field *field, const char **slot) {
  if (*slot != NULL) return "a field is repeated";
  *slot = field->length <= SOCKET_PATH_BYTES_MAX ? keep(field) : NULL;
  return *slot == NULL || (*slot)[0] != '/' ? "a socket's path is not absolute, or too long" : NULL;
}

/* Cuts a text at its lines' ends. Returns what is behind the first one, or NULL. */
static char *cut(char *text) {
  char *end = strchr(text, '\n');
  if (end == NULL) return NULL;
  *end = '\0';
  return end + 1;
}

static const char *keep_command(const struct field *field, struct start_request *out) {
  if (out->command_count == VMM_COMMANDS_MAX) return "too many commands";
  struct command *command = &out->commands[out->command_count];
  char **slot = words + out->command_count * (VMM_WORDS_MAX + 1);
  char *how = keep(field);
  char *rest = how == NULL ? NULL : cut(how);
  if (rest == NULL) return "a command has no words, holds a NUL or is too long";
  bool serves_files = strncmp(how, "files ", 6) == 0;
  *command = (struct command){.stays = serves_files || strncmp(how, "stay", 4) == 0, .serves_files = serves_files, .words = slot};
  if (command->stays && strchr(how, ' ') != NULL) command->awaits = strchr(how, ' ') + 1;
  if (command->awaits != NULL && (command->awaits[0] != '/' || strlen(command->awaits) > SOCKET_PATH_BYTES_MAX)) {
    return "a socket's path is not absolute, or too long";
  }
  command->unpacks = strncmp(how, "unpack ", 7) == 0;
  if (strncmp(how, "make ", 5) == 0) command->makes = how + 5;
  if (command->unpacks) command->makes = how + 7;
  command->cuts = strncmp(how, "behind ", 7) == 0;
  if (command->cuts) command->makes = how + 7;
  if (command->makes != NULL && (command->makes[0] != '/' || strlen(command->makes) > MADE_PATH_BYTES_MAX)) {
    return "the path of what is made is not absolute, or too long";
  }
  command->remembers = strcmp(how, "memory") == 0;
  bool is_plain = command->remembers || strcmp(how, "once") == 0 || strcmp(how, "stay") == 0;
  if (command->awaits == NULL && command->makes == NULL && !is_plain) {
    return "a command is none of once, make, unpack, behind, memory, stay and files";
  }
  for (unsigned count = 0; rest != NULL; count++) {
    if (count == VMM_WORDS_MAX) return "a command has too many words";
    slot[count] = rest;
    rest = cut(rest);
  }
  if (slot[0][0] == '\0') return "a command's program has no name";
  if (command->cuts && slot[1] == NULL) return "what is behind how much is not said";
  out->command_count++;
  return NULL;
}

static const char *keep_field(const struct field *field, struct start_request *out) {
  switch (field->tag) {
    case FIELD_SOCKET: return keep_socket(field, &out->socket);
    case FIELD_CONTROL: return keep_socket(field, &out->control);
    case FIELD_COMMAND: return keep_command(field, out);
    default: return "a field has no business in this request";
  }
}

const char *start_request_parse(uint8_t *payload, size_t length, struct start_request *out) {
  struct field_reader reader;
  struct field field;
  *out = (struct start_request){0};
  texts_used = 0;
  memset(words, 0, sizeof words);
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    const char *wrong = keep_field(&field, out);
    if (wrong != NULL) return wrong;
  }
  if (reader.fault != FRAME_FINE) return "the payload is no list of fields";
  if (out->socket == NULL || out->control == NULL || out->command_count == 0) return "a field is missing";
  return NULL;
}

const char *guest_request_parse(uint8_t *payload, size_t length, uint16_t *port) {
  struct field_reader reader;
  struct field field;
  *port = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    if (field.tag != FIELD_PORT) return "a field has no business in this request";
    if (*port != 0) return "a field is repeated";
    if (field.number < 1 || field.number > UINT16_MAX) return "the port is out of range";
    *port = (uint16_t)field.number;
  }
  if (reader.fault != FRAME_FINE) return "the payload is no list of fields";
  if (*port == 0) *port = VMM_GUEST_PORT;
  return NULL;
}
