/* What a start mounts on: see mount_points.h. */
#include "common/mount_points.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"

/* Writable for all where `mode` is not 0755, which asks for no particular one. */
static int prepare_directory(int root, const char *name, mode_t mode) {
  struct stat status;
  if (fstatat(root, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(status.st_mode) && (mode == 0755 || (status.st_mode & 07777) == mode)) return 0;
    if (S_ISDIR(status.st_mode)) return fchmodat(root, name, mode, 0);
    if (unlinkat(root, name, 0) != 0) return -1;
  }
  return mkdirat(root, name, 0755) == 0 && (mode == 0755 || fchmodat(root, name, mode, 0) == 0) ? 0 : -1;
}

/* Somebody's files, under a name that nobody can have taken. */
static int put_aside(int directory, const char *name) {
  char aside[64];
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return -1;
  snprintf(aside, sizeof aside, "%s.%016llx", name, (unsigned long long)number);
  return renameat(directory, name, directory, aside);
}

static int prepare_file(int directory, const char *name) {
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISREG(status.st_mode)) return 0;
    int result = unlinkat(directory, name, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
    if (result != 0 && errno == ENOTEMPTY) result = put_aside(directory, name);
    if (result != 0) return -1;
  }
  cleanup_fd fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  return fd >= 0 ? 0 : -1;
}

const char *mount_points_prepare(int root) {
  if (prepare_directory(root, "proc", 0755) != 0) return "/proc";
  if (prepare_directory(root, "dev", 0755) != 0) return "/dev";
  if (prepare_directory(root, "etc", 0755) != 0) return "/etc";
  if (prepare_directory(root, "tmp", 01777) != 0) return "/tmp";
  cleanup_fd etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (etc < 0) return "/etc";
  if (prepare_file(etc, "hosts") != 0) return "/etc/hosts";
  return prepare_file(etc, "resolv.conf") != 0 ? "/etc/resolv.conf" : NULL;
}

int mount_point_cover(int upper, const char *unmade) {
  const char *name = unmade + strlen("/etc/");
  if (strcmp(unmade, "/etc/hosts") != 0 && strcmp(unmade, "/etc/resolv.conf") != 0) return -1;
  cleanup_fd data = openat(upper, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (data < 0 || (mkdirat(data, "etc", 0755) != 0 && errno != EEXIST)) return -1;
  cleanup_fd etc = openat(data, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return etc >= 0 ? prepare_file(etc, name) : -1;
}

int mount_point_open(int root, const char *target) {
  char part[256];
  cleanup_fd at = open_beneath(root, ".", O_PATH | O_DIRECTORY);
  for (const char *rest = target; at >= 0 && *rest != '\0';) {
    size_t bytes = strcspn(rest, "/");
    snprintf(part, sizeof part, "%.*s", (int)bytes, rest);
    int next = open_beneath(at, part, O_PATH | O_DIRECTORY);
    if (next < 0 && errno == ENOENT && mkdirat(at, part, 0755) == 0) next = open_beneath(at, part, O_PATH | O_DIRECTORY);
    int number = errno;
    close_fd(&at);
    errno = number;
    at = next;
    rest += bytes + (rest[bytes] == '/');
  }
  return take_fd(&at);
}
