/* See fault.h. */
#include "fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *fault_of(const char *format, ...) {
  static char fault[640];
  char made[sizeof fault];
  __builtin_va_list values;
  __builtin_va_start(values, format);
  (void)vsnprintf(made, sizeof made, format, values);
  __builtin_va_end(values);
  return strcpy(fault, made);
}

const char *fault_of_errno(const char *what) {
  int number = errno;
  return fault_of("%s: %s (os error %d)", what, strerror(number), number);
}
