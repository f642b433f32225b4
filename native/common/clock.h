/* Time from a clock that never jumps: deadlines and durations are kept in it. */
#ifndef SQUASH_COMMON_CLOCK_H
#define SQUASH_COMMON_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline int64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}
static inline int64_t now_ms(void) { return now_us() / 1000; }
static inline void sleep_ms(long milliseconds) {
  struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

#endif
