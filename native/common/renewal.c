/* Being made a machine of its own: see renewal.h. */
#include "common/renewal.h"

#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "common/frame.h"

bool renewal_parse(uint8_t *payload, size_t length, struct renewal *out) {
  struct field_reader reader;
  struct field field;
  enum { SEED = 1, WALL = 2, SETTINGS = 4 };
  unsigned seen = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    if (field.tag == FIELD_SEED && field.length == RENEWAL_SEED_BYTES) {
      out->seed = field.bytes;
      seen |= SEED;
    } else if (field.tag == FIELD_WALL_MS) {
      out->wall_ms = field.number;
      seen |= WALL;
    } else if (field.tag == FIELD_SETTINGS && (seen & SETTINGS) == 0) {
      out->settings = field.bytes;
      out->settings_length = field.length;
      seen |= SETTINGS;
    } else {
      return false;
    }
  }
  return reader.fault == FRAME_FINE && seen == (SEED | WALL | SETTINGS);
}

int renewal_random(const struct renewal *renewal, int urandom) {
  /* As the kernel has it: a count of bits and one of bytes, and these behind them. */
  struct {
    int counts[2];
    uint8_t bytes[RENEWAL_SEED_BYTES];
  } pool = {.counts = {RENEWAL_SEED_BYTES * 8, RENEWAL_SEED_BYTES}};
  _Static_assert(offsetof(__typeof__(pool), bytes) == sizeof(struct rand_pool_info), "the bytes are behind their counts");
  memcpy(pool.bytes, renewal->seed, RENEWAL_SEED_BYTES);
  bool is_done = ioctl(urandom, RNDADDENTROPY, &pool) == 0 && ioctl(urandom, RNDRESEEDCRNG) == 0;
  explicit_bzero(&pool, sizeof pool);
  return is_done ? 0 : -1;
}

int renewal_clock(const struct renewal *renewal) {
  const struct timespec now = {.tv_sec = (time_t)(renewal->wall_ms / 1000), .tv_nsec = (long)(renewal->wall_ms % 1000) * 1000000};
  return clock_settime(CLOCK_REALTIME, &now);
}
