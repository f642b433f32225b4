/* The launcher's log: see log.h. Sandboxes can cause lines, so the size has a bound. */
#include "launch/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptor.h"

enum { LOG_BYTES_MAX = 1024 * 1024 };

static int directory = -1;

static int log_reopen(void) {
  cleanup_fd fd = openat(directory, "launch.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) return -1;
  return 0;
}

int log_open(int run_directory) {
  directory = run_directory;
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) return -1;
  return log_reopen();
}

void log_line(const char *format, ...) {
  char line[1536];
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
  used += (size_t)snprintf(line + used, sizeof line - used, ".%03ldZ ", now.tv_nsec / 1000000);
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  used += (size_t)length < sizeof line - used - 1 ? (size_t)length : sizeof line - used - 2;
  /* A name in a message may hold anything: one entry stays one line. */
  for (size_t i = 0; i < used; i++) {
    if ((unsigned char)line[i] < 0x20) line[i] = ' ';
  }
  line[used++] = '\n';
  struct stat status;
  if (directory >= 0 && fstat(STDERR_FILENO, &status) == 0 && status.st_size > LOG_BYTES_MAX) {
    (void)renameat(directory, "launch.log", directory, "launch.log.1");
    (void)log_reopen();
  }
  (void)!write(STDERR_FILENO, line, used); /* A log that can't be written is no reason to stop. */
}
