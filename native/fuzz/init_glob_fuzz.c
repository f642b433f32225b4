/* Any pattern and any path: no step beyond the texts, and no endless match. */
#include <stdlib.h>
#include <string.h>

#include "init/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct glob glob;
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  char *path = strchr(text, '\n');
  if (path != NULL) *path++ = '\0';
  if (glob_parse(&glob, text) && path != NULL) {
    uint64_t states = glob_start(&glob);
    for (char *part = strtok(path, "/"); part != NULL; part = strtok(NULL, "/")) {
      if (strlen(part) <= 255) states = glob_step(&glob, states, part);
      if (states >> (glob.count + 1) != 0) abort();
    }
  }
  free(text);
  return 0;
}
