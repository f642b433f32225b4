/* The processor's counter: see tsc.h. */
#include "vmm/tsc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Of 20 ms the error is some millionths; a longer wait would be seen in every start. */
enum { MEASURED_NS_MIN = 20 * 1000 * 1000, WORD_BYTES_MAX = 8192 };
#define MARK "{tsc_khz}"

struct sample {
  int64_t ns;
  uint64_t ticks;
};

static struct sample begun;

static struct sample take_sample(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  struct sample sample = {.ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
#if defined(__x86_64__)
  sample.ticks = __rdtsc();
#endif
  return sample;
}

void tsc_begin(void) { begun = take_sample(); }

static unsigned long long measured_khz(void) {
  struct sample now = take_sample();
  while (now.ns - begun.ns < MEASURED_NS_MIN) {
    const struct timespec rest = {.tv_nsec = MEASURED_NS_MIN - (now.ns - begun.ns)};
    (void)nanosleep(&rest, NULL);
    now = take_sample();
  }
  return (unsigned long long)((double)(now.ticks - begun.ticks) * 1e6 / (double)(now.ns - begun.ns));
}

char *const *tsc_words(char **words) {
  static char word[WORD_BYTES_MAX];
  for (char **at = words; *at != NULL; at++) {
    const char *mark = strstr(*at, MARK);
    if (mark == NULL) continue;
    int length = snprintf(word, sizeof word, "%.*s%llu%s", (int)(mark - *at), *at, measured_khz(), mark + strlen(MARK));
    if (length > 0 && (size_t)length < sizeof word) *at = word;
    break;
  }
  return words;
}
