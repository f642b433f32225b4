/* Finds the attack by name, runs it, and turns its outcome into an exit code. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int say(int code, const char *word, const char *format, va_list arguments) {
  printf("%s: ", word);
  vprintf(format, arguments);
  putchar('\n');
  fflush(stdout);
  return code;
}

int held(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = say(EXIT_HELD, "held", format, arguments);
  va_end(arguments);
  return code;
}

int breach(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = say(EXIT_BREACH, "breach", format, arguments);
  va_end(arguments);
  return code;
}

int untried(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int code = say(EXIT_UNTRIED, "untried", format, arguments);
  va_end(arguments);
  return code;
}

int refused(const char *what, long result) {
  int error = errno;
  if (result >= 0) return breach("%s succeeded", what);
  switch (error) {
    case EPERM:
    case EACCES:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT: return held("%s: %s", what, strerror(error));
    case ENOSYS: return held("%s is absent", what);
    default: return breach("%s reached the kernel: %s", what, strerror(error));
  }
}

int unopened(const char *path, int flags) {
  int descriptor = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor >= 0) return breach("opened %s", path);
  return held("%s: %s", path, strerror(errno));
}

long count_of(const char *text) {
  char *end = NULL;
  long count = strtol(text, &end, 10);
  if (end == text || *end != '\0' || count < 0) {
    fprintf(stderr, "not a count: %s\n", text);
    exit(2);
  }
  return count;
}

int main(int argc, char **argv) {
  static const struct attack *const groups[] = {
      path_attacks,   mount_attacks,    namespace_attacks, process_attacks, kernel_attacks,
      socket_attacks, identity_attacks, resource_attacks,  shared_attacks,  hijack_attacks,
      swap_attacks,   servers};
  if (argc < 2) {
    fprintf(stderr, "usage: attack NAME [ARGUMENT...]\n");
    return 2;
  }
  for (size_t group = 0; group < sizeof groups / sizeof groups[0]; group++) {
    for (const struct attack *attack = groups[group]; attack->name != NULL; attack++) {
      if (strcmp(attack->name, argv[1]) == 0) return attack->run(argc - 1, argv + 1);
    }
  }
  fprintf(stderr, "no attack is called %s\n", argv[1]);
  return 2;
}
