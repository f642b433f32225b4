/* Any payload through the parsers of PID 1's requests, with the in-place termination of strings. */
#include <stdlib.h>
#include <string.h>

#include "init/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const char *text) {
  if (text != NULL && strlen(text) > FRAME_PAYLOAD_BYTES_MAX) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* The spare byte that every caller provides. */
  uint8_t *payload = malloc(size + 1);
  memcpy(payload, data, size);
  struct exec_request spec;
  if (exec_request_parse(payload, size, &spec) == NULL) {
    for (char *const *argument = spec.arguments; *argument != NULL; argument++) touch(*argument);
    for (char *const *entry = spec.environment; *entry != NULL; entry++) touch(*entry);
    touch(spec.cwd);
    if (spec.id_length == 0 || spec.id_length > GUEST_EXEC_ID_BYTES_MAX) abort();
  }
  memcpy(payload, data, size);
  struct attach_request attach;
  if (attach_request_parse(payload, size, &attach) == NULL && attach.offsets[0] > INTEGER_MAX) abort();
  memcpy(payload, data, size);
  static const uint8_t file_fields[] = {FIELD_PATH, FIELD_TARGET, FIELD_MODE, 0};
  if (request_parse(file_fields, payload, size) == NULL) {
    touch(request_path(FIELD_PATH));
    touch(request_path(FIELD_TARGET));
  }
  free(payload);
  return 0;
}
