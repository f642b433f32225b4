/* Patterns of paths: what they match, what is none, and that no pattern takes long. */
#include <stdio.h>
#include <string.h>

#include "init/glob.h"
#include "tests/check.h"

static bool is_match(const char *pattern, const char *path) {
  struct glob glob;
  char parts[1024];
  if (!glob_parse(&glob, pattern)) return false;
  uint64_t states = glob_start(&glob);
  (void)snprintf(parts, sizeof parts, "%s", path);
  for (char *part = strtok(parts, "/"); part != NULL; part = strtok(NULL, "/")) states = glob_step(&glob, states, part);
  return glob_is_matched(&glob, states);
}

static bool is_pattern(const char *pattern) {
  struct glob glob;
  return glob_parse(&glob, pattern);
}

static void check_matches(void) {
  CHECK(is_match("*", "a") && !is_match("*", "a/b") && !is_match("*", ".a") && is_match(".*", ".a"));
  CHECK(is_match("**", "a/b/c") && !is_match("**", "a/.b/c") && is_match("a/**/b", "a/b") && is_match("a/**/b", "a/x/y/b"));
  CHECK(is_match("**/*.c", "x.c") && is_match("**/*.c", "a/b/x.c") && !is_match("**/*.c", "x.h"));
  CHECK(is_match("a?c", "abc") && !is_match("a?c", "ac") && !is_match("a?c", "abbc"));
  CHECK(is_match("[a-c]x", "bx") && !is_match("[!a-c]x", "bx") && is_match("[]a]", "]") && is_match("[a-]", "-"));
  CHECK(is_match("{a,bc}d", "ad") && is_match("{a,bc}d", "bcd") && !is_match("{a,bc}d", "bd") && is_match("{,a}b", "b"));
  CHECK(is_match("{*.c,x?}{1,}", "a.c1") && is_match("{*.c,x?}{1,}", "xy") && !is_match("{*.c,x?}{1,}", "xyz"));
  CHECK(is_match("\\*\\{", "*{") && !is_match("\\*", "a") && is_match("\\.a", ".a") && is_match("a\\[b", "a[b"));
  CHECK(is_match("a,b}", "a,b}") && is_match("[{,}]", ","));
}

static void check_refused(void) {
  CHECK(!is_pattern("") && !is_pattern("/a") && !is_pattern("a/") && !is_pattern("a//b"));
  CHECK(!is_pattern("[a") && !is_pattern("{a") && !is_pattern("{a{b}}") && !is_pattern("a\\") && !is_pattern("{a/b}"));
  char deep[2 * GLOB_PARTS_MAX + 3];
  for (unsigned i = 0; i < sizeof deep - 1; i++) deep[i] = i % 2 == 0 ? 'a' : '/';
  deep[sizeof deep - 1] = '\0';
  CHECK(!is_pattern(deep));
  deep[2 * GLOB_PARTS_MAX - 1] = '\0';
  CHECK(is_pattern(deep));
}

/* With plain backtracking each of these takes longer than there is time. */
static void check_bounded(void) {
  char name[256];
  memset(name, 'a', 255);
  name[255] = '\0';
  CHECK(!is_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
  CHECK(!is_match("{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}*b", name));
  CHECK(!is_match("**/**/**/**/**/**/**/**/**/**/**/**/b", "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"));
}

int main(void) {
  check_matches();
  check_refused();
  check_bounded();
  return check_summary();
}
