/* What `ps` shows: see title.h. */
#include "launch/title.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"

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

bool title_is(pid_t pid, const char *wanted) {
  char path[64];
  char text[PATH_MAX + 64];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  return text_file_read(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, wanted) == 0;
}
