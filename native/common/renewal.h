/*
 * What a machine that goes on from another one's memory is told, so that it is one of its own: random numbers and a clock, and settings
 * that mean what whoever hears them says.
 */
#ifndef SQUASH_RENEWAL_H
#define SQUASH_RENEWAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RENEWAL_SEED_BYTES = 64 };

/* Points into the payload. */
struct renewal {
  const uint8_t *seed;
  uint64_t wall_ms;
  const uint8_t *settings;
  size_t settings_length;
};

/* False: that is none. */
bool renewal_parse(uint8_t *payload, size_t length, struct renewal *out);
/* What the other's generator would give next is what this one's would. With CAP_SYS_ADMIN, and /dev/urandom. Returns 0 or -1 with errno. */
int renewal_random(const struct renewal *renewal, int urandom);
/* With CAP_SYS_TIME. Returns 0 or -1 with errno. */
int renewal_clock(const struct renewal *renewal);

#endif
