/* Any payload through the parser of the launcher's requests, for each of its verbs. */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "launch/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path) {
  if (path != NULL && !path_is_relative(path)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  uint8_t type = (uint8_t)(FRAME_SANDBOX_START + data[0] % 28);
  uint8_t *payload = malloc(size);
  memcpy(payload, data + 1, size - 1);
  struct request request;
  struct fault fault;
  if (request_parse(&request, type, payload, size - 1, &fault) == 0) {
    check_path(request.upper);
    check_path(request.path);
    check_path(request.target);
    for (size_t i = 0; i < request.lower_count; i++) check_path(request.lowers[i]);
    for (size_t i = 0; i < request.mount_count; i++) {
      if (request.mounts[i].source[0] != '\0') check_path(request.mounts[i].source);
      check_path(request.mounts[i].target);
      if (strchr(request.mounts[i].identity, '\n') != NULL) abort();
      const char *hidden = request.mounts[i].hidden;
      for (size_t j = 0; j < request.mounts[i].hidden_count; j++, hidden += strlen(hidden) + 1) check_path(hidden);
    }
    if (request.name != NULL && strlen(request.name) > SANDBOX_NAME_BYTES_MAX) abort();
  } else if (fault.code == NULL) {
    abort();
  }
  request_free(&request);
  free(payload);
  return 0;
}
