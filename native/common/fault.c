/* Fills a `struct fault`: see the header for who calls this and when. */
#include "common/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static int fault_fill(struct fault *fault, const char *code, const char *format, va_list arguments) {
  int number = errno;
  fault->code = code;
  fault->number = number;
  int used = vsnprintf(fault->text, sizeof fault->text, format, arguments);
  if (number != 0 && used >= 0 && (size_t)used < sizeof fault->text) {
    snprintf(fault->text + used, sizeof fault->text - (size_t)used, ": %s", strerror(number));
  }
  errno = number;
  return -1;
}

int fault_set(struct fault *fault, const char *code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fault_fill(fault, code, format, arguments);
  va_end(arguments);
  return -1;
}

int fault_disk(struct fault *fault, const char *code, const char *format, ...) {
  int is_full = errno == ENOSPC || errno == EDQUOT;
  va_list arguments;
  va_start(arguments, format);
  fault_fill(fault, is_full ? "disk_full" : code, format, arguments);
  va_end(arguments);
  return -1;
}

const char *fault_code_named(const char *name) {
  static const char *const codes[] = {"launch_failed", "invalid_request", "disk_full", "internal"};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (strcmp(codes[i], name) == 0) return codes[i];
  }
  return codes[0];
}
