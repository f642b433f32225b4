/* Assertions of the C tests: they name what failed and go on, so that one run shows every failure. */
#ifndef SQUASH_TESTS_CHECK_H
#define SQUASH_TESTS_CHECK_H
#include <stdbool.h>
#include <stdio.h>

static unsigned checks_done;
static unsigned checks_failed;

static inline void check(bool holds, const char *what, const char *file, int line) {
  checks_done++;
  if (holds) return;
  checks_failed++;
  (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
}

#define CHECK(condition) check(condition, #condition, __FILE__, __LINE__)
#define CHECK_NAMED(condition, name) check(condition, name, __FILE__, __LINE__)

static inline int check_summary(void) {
  (void)printf("%u checks, %u failed\n", checks_done, checks_failed);
  return checks_failed == 0 ? 0 : 1;
}

#endif
