/* Stat, list, make and move: operations on names. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"

/* A symlink's text, or NULL for everything else. */
static const char *link_target(int directory, const char *name, const struct stat *stat) {
  static char target[GUEST_PATH_BYTES_MAX];
  if (!S_ISLNK(stat->st_mode)) return NULL;
  ssize_t length = readlinkat(directory, name, target, sizeof target - 1);
  if (length < 0) return NULL;
  target[length] = '\0';
  return target;
}

void file_stat(int socket) {
  uint64_t follow = 0;
  if (!request_integer(FIELD_FOLLOW_LINKS, 0, 1, &follow)) {
    answer_bad_request(socket, "followLinks is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  struct stat stat;
  if (fstatat(AT_FDCWD, path, &stat, follow == 1 ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    answer_error(socket, errno, "stat");
    return;
  }
  answer_entry(socket, NULL, &stat, link_target(AT_FDCWD, path, &stat));
}

void file_list(int socket) {
  DIR *directory = opendir(request_path(FIELD_PATH));
  if (directory == NULL) {
    answer_error(socket, errno, "open");
    return;
  }
  errno = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL; errno = 0) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    struct stat stat;
    /* Removed since it was listed: then it is not there to be told of. */
    if (fstatat(dirfd(directory), name, &stat, AT_SYMLINK_NOFOLLOW) != 0) continue;
    answer_entry(socket, name, &stat, link_target(dirfd(directory), name, &stat));
  }
  if (errno != 0) answer_error(socket, errno, "list");
  else answer_end(socket);
  (void)closedir(directory);
}

static bool is_directory(const char *path) {
  struct stat stat;
  return fstatat(AT_FDCWD, path, &stat, 0) == 0 && S_ISDIR(stat.st_mode);
}

int make_parents(const char *path) {
  char parent[GUEST_PATH_BYTES_MAX];
  size_t length = strlen(path); /* below GUEST_PATH_BYTES_MAX: request_path has checked */
  for (size_t i = 1; i < length; i++) {
    if (path[i] != '/') continue;
    memcpy(parent, path, i);
    parent[i] = '\0';
    /* Any refusal is fine where a directory stands already: a read-only or foreign parent, for instance. */
    if (mkdir(parent, 0755) == 0) continue;
    int failure = errno;
    if (is_directory(parent)) continue;
    errno = failure == EEXIST ? ENOTDIR : failure; /* What stands there is no directory. */
    return -1;
  }
  return 0;
}

/* The parent directory of an absolute path, held open, and the last part in `name`; "." for the root. */
static int open_parent(const char *path, char name[NAME_MAX + 1]) {
  char parent[GUEST_PATH_BYTES_MAX];
  size_t length = strlen(path); /* below GUEST_PATH_BYTES_MAX: request_path has checked */
  while (length > 1 && path[length - 1] == '/') length--;
  size_t start = length;
  while (path[start - 1] != '/') start--;
  if (length - start > NAME_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(name, path + start, length - start);
  name[length - start] = '\0';
  if (length == start) memcpy(name, ".", 2);
  memcpy(parent, path, start);
  parent[start] = '\0';
  return open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Makes the directory with exactly this mode. Whoever may write to the parent can put something else in the new
 * directory's place at once, so the mode comes from mkdir itself and not from a chmod behind it. What mkdir does not set
 * or inherits (set-id bits) is mended on a directory, never through a link, that has the other bits already.
 */
static int make_with_mode(const char *path, mode_t mode) {
  char name[NAME_MAX + 1];
  struct stat stat;
  cleanup_fd parent = open_parent(path, name);
  if (parent < 0) return -1;
  mode_t mask = umask(0);
  int made = mkdirat(parent, name, mode);
  (void)umask(mask);
  if (made != 0 || fstatat(parent, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if ((stat.st_mode & 07777) == mode) return 0;
  cleanup_fd directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0 || fstat(directory, &stat) != 0) return -1;
  if ((stat.st_mode & 01777) == (mode & 01777)) return fchmod(directory, mode);
  errno = ESTALE;
  return -1;
}

void file_make_directory(int socket) {
  uint64_t mode = 0755, create_parents = 0;
  if (!request_integer(FIELD_MODE, 0, 07777, &mode) || !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents)) {
    answer_bad_request(socket, "mode or createParents is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  if (create_parents == 1 && make_parents(path) != 0) {
    answer_error(socket, errno, "parent directories");
    return;
  }
  int made = request.has[FIELD_MODE] ? make_with_mode(path, (mode_t)mode) : mkdir(path, (mode_t)mode);
  int failure = errno;
  bool is_there = made != 0 && create_parents == 1 && failure == EEXIST && is_directory(path);
  if (made == 0 || is_there) answer_ok(socket);
  else answer_error(socket, failure, "make");
}

/* Replaces what stands at the target, as rename does. Across file systems, and for a directory of a lower layer,
 * the kernel says EXDEV: copying is left to a command, which the user can see and stop. */
void file_move(int socket) {
  const char *target = request_path(FIELD_TARGET);
  if (target == NULL) answer_bad_request(socket, "the target is not an absolute path");
  else if (rename(request_path(FIELD_PATH), target) != 0) answer_error(socket, errno, "move");
  else answer_ok(socket);
}
