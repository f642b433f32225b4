/* Any payload through the parsers of squash-vmm's requests. */
#include <stdlib.h>
#include <string.h>

#include "vmm/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_socket(const char *path) {
  if (path == NULL || path[0] != '/' || strlen(path) > 100) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *payload = malloc(size + 1);
  static struct start_request start;
  uint16_t port;
  memcpy(payload, data, size);
  if (start_request_parse(payload, size, &start) == NULL) {
    check_socket(start.socket);
    check_socket(start.control);
    if (start.command_count == 0 || start.command_count > VMM_COMMANDS_MAX) abort();
    for (unsigned i = 0; i < start.command_count; i++) {
      const struct command *command = &start.commands[i];
      if (command->awaits != NULL) check_socket(command->awaits);
      unsigned count = 0;
      for (char **word = command->words; *word != NULL; word++) count += strchr(*word, '\n') == NULL ? 1 : VMM_WORDS_MAX + 1;
      if (count == 0 || count > VMM_WORDS_MAX || command->words[0][0] == '\0') abort();
    }
  }
  memcpy(payload, data, size);
  if (guest_request_parse(payload, size, &port) == NULL && port == 0) abort();
  free(payload);
  return 0;
}
