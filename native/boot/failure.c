/* The end of a boot that can't go on: see failure.h. */
#include "boot/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <termios.h>
#include <unistd.h>

_Noreturn void boot_fail(const char *format, ...) {
  int number = errno;
  char what[256];
  va_list values;
  va_start(values, format);
  (void)vsnprintf(what, sizeof what, format, values);
  va_end(values);
  (void)dprintf(STDERR_FILENO, "squash-boot: %s: %s\n", what, strerror(number));
  (void)tcdrain(STDERR_FILENO); /* The line would go down with the machine. */
  (void)reboot(RB_AUTOBOOT);
  _exit(1); /* The kernel panics when its first process ends, and that ends the machine as well. */
}
