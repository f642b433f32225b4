/*
 * Patterns of paths: `*` and `?` match within one part of a path, `[a-z]` and `[!a-z]` one byte of it, `{a,b}` either text, and
 * `**` as a part of its own any number of parts. `\` takes the next byte as it is. A dot that begins a name is only
 * matched by a dot, as in shells.
 *
 * Matched part by part, so that a walk knows below which directories nothing can match. Time is bounded by the product of the
 * lengths, whatever the pattern.
 */
#ifndef SQUASH_INIT_GLOB_H
#define SQUASH_INIT_GLOB_H
#include <stdbool.h>
#include <stdint.h>

enum { GLOB_BYTES_MAX = 1024, GLOB_PARTS_MAX = 62, GLOB_PART_BYTES_MAX = 255 };

struct glob {
  char text[GLOB_BYTES_MAX + 1];
  unsigned count;
  const char *parts[GLOB_PARTS_MAX];
};

#define GLOB_WRONG "the pattern is not valid: it is too long, or has an empty part or brackets without their end"

/* False: GLOB_WRONG, or too many parts. */
bool glob_parse(struct glob *glob, const char *pattern);
/* Which beginnings of the pattern the parts so far match, as a set of bits. */
uint64_t glob_start(const struct glob *glob);
uint64_t glob_step(const struct glob *glob, uint64_t states, const char *name);
bool glob_is_matched(const struct glob *glob, uint64_t states);
/* Whether anything below can match. */
bool glob_goes_on(const struct glob *glob, uint64_t states);

#endif
