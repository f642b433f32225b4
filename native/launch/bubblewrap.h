/* What confines image tools: the command line of bubblewrap. */
#ifndef SQUASH_LAUNCH_BUBBLEWRAP_H
#define SQUASH_LAUNCH_BUBBLEWRAP_H
#include <stdbool.h>

/* A command line in fixed room; `overflowed` is checked once. */
enum { WORDS_MAX = 192, WORD_BYTES_MAX = 4096 };
struct words {
  const char *list[WORDS_MAX + 1];
  char text[WORD_BYTES_MAX];
  unsigned count;
  unsigned used;
  bool overflowed;
};
void words_add(struct words *words, const char *word);
void words_add_format(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
