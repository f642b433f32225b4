/*
 * Errors of image uppers: see upper_errors.h. The kernel counts them in the file system itself, so what an earlier mount
 * met counts as well: only a new upper has none. That one takes no writes any more shows nowhere else: its mount
 * and statfs say what they said before.
 */
#include "launch/upper_errors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "launch/log.h"

enum { LOOK_MS = 1000 };

/* 0 where nobody can tell. */
static unsigned long count_errors(int mount) {
  struct stat status;
  char link[64];
  char target[256];
  char path[320];
  char text[32];
  if (fstat(mount, &status) != 0) return 0;
  snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(status.st_dev), minor(status.st_dev));
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return 0;
  target[length] = '\0';
  const char *slash = strrchr(target, '/');
  snprintf(path, sizeof path, "/sys/fs/ext4/%s/errors_count", slash == NULL ? target : slash + 1);
  return text_file_read(AT_FDCWD, path, text, sizeof text) < 0 ? 0 : strtoul(text, NULL, 10);
}

void upper_errors_look(struct launcher *launcher, struct sandbox *sandbox) {
  if (sandbox->has_upper_errors || now_ms() < sandbox->errors_look_at_ms) return;
  sandbox->errors_look_at_ms = now_ms() + LOOK_MS;
  unsigned long count = count_errors(sandbox->upper_mount_fd);
  if (count == 0) return;
  sandbox->has_upper_errors = true;
  sandbox_announce(launcher, sandbox, "upper_errors");
  log_line("sandbox %s: the file system of its upper has met %lu errors", sandbox->name, count);
}
