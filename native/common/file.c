/* Small whole files and paths below a directory: see file.h. */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/descriptor.h"
#include "common/syscalls.h"

bool path_is_relative(const char *path) {
  size_t length = strlen(path);
  if (length == 0 || length > REQUEST_PATH_BYTES_MAX) return false;
  for (const char *part = path;;) {
    size_t bytes = strcspn(part, "/");
    if (bytes == 0 || bytes > 255) return false;
    if (bytes == 1 && part[0] == '.') return false;
    if (bytes == 2 && part[0] == '.' && part[1] == '.') return false;
    if (part[bytes] == '\0') return true;
    part += bytes + 1;
  }
}

enum { OPEN_TRIES = 1000 };

static int open_resolved(int directory, const char *path, int flags, uint64_t resolve) {
  struct open_how how = {
      .flags = (unsigned)flags | O_CLOEXEC,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve,
  };
  for (int tries = 0;; tries++) {
    int fd = sys_openat2(directory, path, &how);
    /* EAGAIN: a rename happened meanwhile somewhere on the way; the kernel asks to try again. Not without end: who may
       rename there may do it all the time, and a file that somebody has leased says the same. */
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN) || tries >= OPEN_TRIES) return fd;
  }
}

int open_beneath(int directory, const char *path, int flags) { return open_resolved(directory, path, flags, 0); }

int open_inside(int directory, const char *path, int flags) {
  return open_resolved(directory, path, flags, RESOLVE_NO_XDEV);
}

int make_directories(int directory, const char *path, bool for_parent) {
  char part[REQUEST_PATH_BYTES_MAX + 1];
  cleanup_fd at = open_beneath(directory, ".", O_PATH | O_DIRECTORY);
  while (at >= 0) {
    size_t bytes = strcspn(path, "/");
    if (path[bytes] == '\0' && for_parent) return 0;
    if (bytes >= sizeof part) {
      errno = ENAMETOOLONG;
      return -1;
    }
    memcpy(part, path, bytes);
    part[bytes] = '\0';
    if (mkdirat(at, part, 0700) != 0 && errno != EEXIST) return -1;
    if (path[bytes] == '\0') return 0;
    int next = open_beneath(at, part, O_PATH | O_DIRECTORY);
    close_fd(&at);
    at = next;
    path += bytes + 1;
  }
  return -1;
}

int open_parent(int directory, const char *path, const char **name) {
  const char *slash = strrchr(path, '/');
  *name = slash == NULL ? path : slash + 1;
  if (slash == NULL) return open_beneath(directory, ".", O_RDONLY | O_DIRECTORY);
  char parent[REQUEST_PATH_BYTES_MAX + 1];
  size_t bytes = (size_t)(slash - path);
  if (bytes >= sizeof parent) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(parent, path, bytes);
  parent[bytes] = '\0';
  return open_beneath(directory, parent, O_RDONLY | O_DIRECTORY);
}

ssize_t text_file_read(int directory, const char *path, char *buffer, size_t size) {
  cleanup_fd fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t used = 0;
  while (used < size - 1) {
    ssize_t got = read(fd, buffer + used, size - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    used += (size_t)got;
  }
  buffer[used] = '\0';
  return (ssize_t)used;
}

int text_file_write(int directory, const char *path, const char *text) {
  cleanup_fd fd = openat(directory, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  size_t length = strlen(text);
  for (;;) {
    ssize_t put = write(fd, text, length);
    if (put == (ssize_t)length) return 0;
    if (put < 0 && errno == EINTR) continue;
    if (put >= 0) errno = EIO;
    return -1;
  }
}

int text_file_write_format(int directory, const char *path, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof text) {
    errno = EOVERFLOW;
    return -1;
  }
  return text_file_write(directory, path, text);
}

long long text_file_keyed_number(int directory, const char *path, const char *key) {
  char text[4096];
  if (text_file_read(directory, path, text, sizeof text) < 0) return -1;
  size_t length = strlen(key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, length) == 0 && line[length] == ' ') return atoll(line + length + 1);
  }
  return -1;
}

struct fd_path fd_path(int fd, const char *below) {
  struct fd_path path;
  snprintf(path.text, sizeof path.text, "/proc/self/fd/%d%s%s", fd, below[0] == '\0' ? "" : "/", below);
  return path;
}
