/* What a box has written: see box_tree.h. */
#include "launch/box_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "common/syscalls.h"
#include "tree/tree.h"

enum { COPIED_AT_ONCE = 1 << 20, COPY_TRIES = 3 };
/* A longer file that is next to nothing but holes fills disks of whoever copies it later. */
static const off_t unfilled_bytes_max = 1 << 30;

static enum own_kind kind_of(const struct stat *status) {
  if (S_ISCHR(status->st_mode) && status->st_rdev == 0) return OWN_GONE;
  if (S_ISREG(status->st_mode)) return OWN_FILE;
  if (S_ISDIR(status->st_mode)) return OWN_DIRECTORY;
  return S_ISLNK(status->st_mode) ? OWN_LINK : OWN_OTHER;
}

int box_look(int from, const char *path, struct own *own) {
  char part[NAME_MAX + 1];
  bool hides = false;
  cleanup_fd at = open_beneath(from, ".", O_RDONLY | O_DIRECTORY);
  *own = (struct own){.kind = OWN_NOTHING};
  for (const char *rest = path; at >= 0;) {
    size_t bytes = strcspn(rest, "/");
    snprintf(part, sizeof part, "%.*s", (int)bytes, rest);
    bool is_last = rest[bytes] == '\0';
    if (fstatat(at, part, &own->status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT && hides) own->kind = OWN_GONE;
      return errno == ENOENT ? 0 : -1;
    }
    enum own_kind kind = kind_of(&own->status);
    if (is_last || kind != OWN_DIRECTORY) own->kind = is_last ? kind : OWN_GONE;
    if (is_last || kind != OWN_DIRECTORY) return 0;
    int next = open_beneath(at, part, O_RDONLY | O_DIRECTORY);
    close_fd(&at);
    at = next;
    hides = hides || (at >= 0 && tree_is_opaque(at));
    rest += bytes + 1;
  }
  return -1;
}

int box_open_file(int from, const char *path) {
  struct stat status;
  const char *name;
  cleanup_fd parent = open_parent(from, path, &name);
  cleanup_fd file = parent < 0 ? -1 : open_beneath(parent, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (file < 0 || fstat(file, &status) != 0) return -1;
  if (S_ISREG(status.st_mode)) return take_fd(&file);
  errno = EINVAL;
  return -1;
}

/* 1: where the kernel does not copy between these two. */
static int copy_in_kernel(int from, int to, off_t *at, off_t end) {
  while (*at < end) {
    off_t out = *at;
    size_t length = end - *at > COPIED_AT_ONCE ? COPIED_AT_ONCE : (size_t)(end - *at);
    ssize_t got = copy_file_range(from, at, to, &out, length, 0);
    if (got == 0) return 0;
    if (got > 0 || errno == EINTR) continue;
    return errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS ? 1 : -1;
  }
  return 0;
}

static int copy_part(int from, int to, off_t at, off_t end) {
  static char bytes[COPIED_AT_ONCE];
  int result = copy_in_kernel(from, to, &at, end);
  if (result <= 0) return result;
  while (at < end) {
    size_t length = end - at > COPIED_AT_ONCE ? COPIED_AT_ONCE : (size_t)(end - at);
    ssize_t got = pread(from, bytes, length, at);
    if (got == 0) return 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    for (ssize_t done = 0; done < got;) {
      ssize_t put = pwrite(to, bytes + done, (size_t)(got - done), at + done);
      if (put < 0 && errno != EINTR) return -1;
      if (put > 0) done += put;
    }
    at += got;
  }
  return 0;
}

static int copy_parts(int from, int to, off_t size) {
  if (ftruncate(to, 0) != 0 || ftruncate(to, size) != 0) return -1;
  for (off_t at = 0; at < size;) {
    off_t first = lseek(from, at, SEEK_DATA);
    if (first < 0 && errno == ENXIO) return 0; /* A hole up to its end. */
    if (first < 0) first = at;
    off_t end = lseek(from, first, SEEK_HOLE);
    if (end <= first || end > size) end = size;
    if (first < end && copy_part(from, to, first, end) != 0) return -1;
    at = end;
  }
  return 0;
}

static bool is_still(const struct stat *was, const struct stat *is) {
  return was->st_size == is->st_size && was->st_mtim.tv_sec == is->st_mtim.tv_sec &&
         was->st_mtim.tv_nsec == is->st_mtim.tv_nsec && was->st_ctim.tv_sec == is->st_ctim.tv_sec &&
         was->st_ctim.tv_nsec == is->st_ctim.tv_nsec;
}

int box_copy_file(int from, int to) {
  for (int tries = 0; tries < COPY_TRIES; tries++) {
    struct stat was;
    struct stat is;
    if (fstat(from, &was) != 0) return -1;
    errno = EFBIG;
    if (was.st_size > unfilled_bytes_max && was.st_blocks < was.st_size / 512 / 16) return -1;
    if (copy_parts(from, to, was.st_size) != 0 || fstat(from, &is) != 0) return -1;
    if (is_still(&was, &is)) return 0;
  }
  errno = EBUSY;
  return -1;
}

bool box_link_leads_out(int to, const char *path, const char *text) {
  char whole[PATH_MAX];
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  const char *last = strrchr(path, '/');
  int depth = 0;
  bool has_name = false;
  for (const char *at = path; (at = strchr(at, '/')) != NULL; at++) depth++;
  if (text[0] == '/') return true;
  for (const char *at = text; *at != '\0';) {
    size_t bytes = strcspn(at, "/");
    bool is_up = bytes == 2 && strncmp(at, "..", 2) == 0;
    if (is_up && (has_name || --depth < 0)) return true;
    has_name = has_name || !(is_up || bytes == 0 || (bytes == 1 && at[0] == '.'));
    at += bytes + (at[bytes] == '/');
  }
  int length = snprintf(whole, sizeof whole, "%.*s%s", last == NULL ? 0 : (int)(last + 1 - path), path, text);
  if (length < 0 || (size_t)length >= sizeof whole) return true;
  cleanup_fd target = sys_openat2(to, whole, &how);
  return target < 0 && errno == EXDEV;
}
