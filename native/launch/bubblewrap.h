/* The last step of a start: bubblewrap makes the remaining namespaces and the new root, and executes squash-init. */
#ifndef SQUASH_LAUNCH_BUBBLEWRAP_H
#define SQUASH_LAUNCH_BUBBLEWRAP_H
#include "launch/fault.h"
#include "launch/launcher.h"
#include "launch/start_plan.h"

/* Replaces the process; returns -1 where it can't. */
int bubblewrap_exec(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault);

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

/* Puts descriptors at 3, 4, 5 … in this order, inheritable; all others stay close-on-exec. */
int place_descriptors(const int *descriptors, int count);

#endif
