/*
 * The paths that commands were refused: a set of distinct pairs of a path and what was wanted of it, bounded in count and in
 * bytes (GUEST_TRACED_…), in static memory of which only used pages exist. Past a bound only that there was more is kept.
 *
 * The tracer's thread adds, PID 1's own reads: an entry never changes, and is there before it is counted.
 */
#ifndef SQUASH_INIT_TRACE_SET_H
#define SQUASH_INIT_TRACE_SET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frames.gen.h"

struct traced {
  uint64_t hash;
  uint64_t at_us; /* since 1970 */
  const char *path;
  uint32_t length;
  enum path_intent intent;
};

bool trace_set_has(const char *path, enum path_intent intent);
void trace_set_add(const char *path, enum path_intent intent, uint64_t at_us);
unsigned trace_set_count(void);
const struct traced *trace_set_at(unsigned index);
bool trace_set_is_full(void);

/* `path`, from `base` where it is relative, without ".", ".." and doubled slashes. By the text alone: behind a link ".." leads elsewhere.
 * False where it does not fit, or is relative and `base` is not absolute. */
bool trace_path_join(const char *base, const char *path, char out[GUEST_PATH_BYTES_MAX]);

#endif
