/* Command lines of bubblewrap: see bubblewrap.h. */
#include "launch/bubblewrap.h"

#include <stdarg.h>
#include <stdio.h>

void words_add(struct words *words, const char *word) {
  if (words->count == WORDS_MAX) {
    words->overflowed = true;
    return;
  }
  words->list[words->count++] = word;
  words->list[words->count] = NULL;
}

void words_add_format(struct words *words, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *at = words->text + words->used;
  int length = vsnprintf(at, sizeof words->text - words->used, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof words->text - words->used) {
    words->overflowed = true;
    return;
  }
  words->used += (unsigned)length + 1;
  words_add(words, at);
}
