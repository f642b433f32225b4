/* What `ps` shows: see title.h. */
#include "launch/title.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char *title;
static size_t title_bytes;

void title_keep(int argc, char **argv) {
  title = argv[0];
  title_bytes = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]);
}

void title_set(const char *format, ...) {
  va_list arguments;
  if (title == NULL) return;
  va_start(arguments, format);
  memset(title, 0, title_bytes);
  (void)vsnprintf(title, title_bytes, format, arguments);
  va_end(arguments);
}
