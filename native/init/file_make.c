/* Making directories and links; modes and owners, also of a whole tree. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"
#include "init/walk.h"

static bool is_directory(const char *path) {
  struct stat stat;
  return fstatat(AT_FDCWD, path, &stat, 0) == 0 && S_ISDIR(stat.st_mode);
}

bool owner_of_request(struct owner *owner) {
  uint64_t uid = (uid_t)-1, gid = (gid_t)-1;
  bool is_fine = request_integer(FIELD_OWNER, 0, UINT32_MAX - 1, &uid) &&
                 request_integer(FIELD_OWNER_GROUP, 0, UINT32_MAX - 1, &gid);
  *owner = (struct owner){(uid_t)uid, (gid_t)gid};
  return is_fine;
}

int set_attributes(int fd, int64_t mode, const struct owner *owner) {
  bool has_owner = owner->uid != (uid_t)-1 || owner->gid != (gid_t)-1;
  /* The owner first: giving a file away clears its set-id bits. */
  if (has_owner && fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH) != 0) return -1;
  if (mode < 0 || fchmod(fd, (mode_t)mode) == 0) return 0;
  if (errno != EBADF) return -1;
  /* O_PATH: what it is open on can only be named. Never a symlink: those have no mode. */
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return chmod(path, (mode_t)mode);
}

/*
 * Gives a directory that was just made to its owner. Whoever may write to the parent can have put another one there, but
 * only one of its own there already, that belongs to whom this is done as; a link is not followed.
 */
static int give(const char *path, const struct owner *owner) {
  if (owner->uid == (uid_t)-1 && owner->gid == (gid_t)-1) return 0;
  cleanup_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat stat;
  if (fd < 0 || fstat(fd, &stat) != 0) return -1;
  if (stat.st_uid == geteuid()) return set_attributes(fd, -1, owner);
  errno = ESTALE;
  return -1;
}

int make_parents(const char *path, const struct owner *owner) {
  char parent[GUEST_PATH_BYTES_MAX];
  size_t length = strlen(path); /* below GUEST_PATH_BYTES_MAX: request_path has checked */
  for (size_t i = 1; i < length; i++) {
    if (path[i] != '/') continue;
    memcpy(parent, path, i);
    parent[i] = '\0';
    /* Any refusal is fine where a directory stands already: a read-only or foreign parent, for instance. */
    if (mkdir(parent, 0755) == 0) {
      if (give(parent, owner) != 0) return -1;
      continue;
    }
    int failure = errno;
    if (is_directory(parent)) continue;
    errno = failure == EEXIST ? ENOTDIR : failure; /* What stands there is no directory. */
    return -1;
  }
  return 0;
}

int open_parent_of(const char *path, char name[NAME_MAX + 1]) {
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
  cleanup_fd parent = open_parent_of(path, name);
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
  struct owner owner;
  if (!request_integer(FIELD_MODE, 0, 07777, &mode) || !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents) ||
      !owner_of_request(&owner)) {
    answer_bad_request(socket, "mode, createParents or the owner is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  if (create_parents == 1 && make_parents(path, &owner) != 0) {
    answer_error(socket, errno, "parent directories");
    return;
  }
  int made = request.has[FIELD_MODE] ? make_with_mode(path, (mode_t)mode) : mkdir(path, (mode_t)mode);
  if (made == 0) made = give(path, &owner);
  int failure = errno;
  bool is_there = made != 0 && create_parents == 1 && failure == EEXIST && is_directory(path);
  if (made == 0 || is_there) answer_ok(socket);
  else answer_error(socket, failure, "make");
}

/* `path` is the new name. A symlink holds the target's bytes as they are, a hard link names the file itself. */
void file_link(int socket) {
  uint64_t type = FILE_TYPE_SYMLINK, create_parents = 0;
  const char *path = request_path(FIELD_PATH), *target = request_text(FIELD_TARGET);
  struct owner nobody = {(uid_t)-1, (gid_t)-1};
  bool is_fine = request_integer(FIELD_FILE_TYPE, FILE_TYPE_FILE, FILE_TYPE_SYMLINK, &type) && type != FILE_TYPE_DIRECTORY &&
                 request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents);
  if (type == FILE_TYPE_FILE) target = request_path(FIELD_TARGET);
  if (!is_fine || target == NULL || target[0] == '\0') {
    answer_bad_request(socket, "the kind of link or its target is none");
    return;
  }
  int made = create_parents == 1 ? make_parents(path, &nobody) : 0;
  if (made == 0) made = type == FILE_TYPE_SYMLINK ? symlink(target, path) : linkat(AT_FDCWD, target, AT_FDCWD, path, 0);
  if (made != 0) answer_error(socket, errno, "link");
  else answer_ok(socket);
}

struct change {
  int socket;
  int64_t mode; /* -1: as it is */
  struct owner owner;
  int64_t size;     /* -1: as it is; never of what is below */
  int64_t mtime_ms; /* the same */
  int failure;
};

/* By the descriptor's name, because an O_PATH descriptor itself is not enough. */
static int set_size(int fd, int64_t size) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return size < 0 ? 0 : truncate(path, size);
}

static int set_mtime(int fd, int64_t ms) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}};
  return ms < 0 ? 0 : utimensat(AT_FDCWD, path, times, 0);
}

/* Through a descriptor, so that what the name means can't change between the look and the change. */
static int change_one(const struct change *change, int directory, const char *name, int flags, bool is_in_tree) {
  cleanup_fd fd = openat(directory, name, O_PATH | O_CLOEXEC | flags);
  struct stat stat;
  if (fd < 0 || fstat(fd, &stat) != 0) return -1;
  int64_t mode = S_ISLNK(stat.st_mode) ? -1 : change->mode;
  /* One mode for a tree would shut its directories: they can be entered by whom they can be read by. */
  if (mode >= 0 && is_in_tree && S_ISDIR(stat.st_mode)) mode |= (mode & 0444) >> 2;
  if (is_in_tree || S_ISLNK(stat.st_mode)) return set_attributes(fd, mode, &change->owner);
  /* The time last: all before it sets it anew. */
  bool is_done = set_size(fd, change->size) == 0 && set_attributes(fd, mode, &change->owner) == 0;
  return is_done ? set_mtime(fd, change->mtime_ms) : -1;
}

static bool change_entry(void *owner, const struct walk_entry *entry) {
  struct change *change = owner;
  answer_progress(change->socket);
  if (change_one(change, entry->directory, entry->name, O_NOFOLLOW, true) != 0 && errno != ENOENT) change->failure = errno;
  return change->failure == 0;
}

void file_attributes(int socket) {
  uint64_t mode = 0, recursive = 0, follow = 1, size = 0, mtime_ms = 0;
  struct change change = {.socket = socket, .mode = -1, .size = -1, .mtime_ms = -1};
  bool is_fine = request_integer(FIELD_MODE, 0, 07777, &mode) && request_integer(FIELD_RECURSIVE, 0, 1, &recursive) &&
                 request_integer(FIELD_FOLLOW_LINKS, 0, 1, &follow) && owner_of_request(&change.owner) &&
                 request_integer(FIELD_SIZE, 0, INTEGER_MAX, &size) && request_integer(FIELD_MTIME_MS, 0, INTEGER_MAX, &mtime_ms) &&
                 (recursive == 0 || (!request.has[FIELD_SIZE] && !request.has[FIELD_MTIME_MS]));
  if (!is_fine) {
    answer_bad_request(socket, "a field is out of range or does not go with recursive");
    return;
  }
  if (request.has[FIELD_MODE]) change.mode = (int64_t)mode;
  if (request.has[FIELD_SIZE]) change.size = (int64_t)size;
  if (request.has[FIELD_MTIME_MS]) change.mtime_ms = (int64_t)mtime_ms;
  const char *path = request_path(FIELD_PATH);
  struct walk_visitor visitor = {.owner = &change, .visit = change_entry, .depth_max = GUEST_WALK_DEPTH_MAX, .is_strict = true};
  if (change_one(&change, AT_FDCWD, path, follow == 1 ? 0 : O_NOFOLLOW, recursive == 1) != 0) change.failure = errno;
  if (change.failure == 0 && recursive == 1) {
    cleanup_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow == 1 ? 0 : O_NOFOLLOW));
    bool is_tree = root >= 0 || (errno != ENOTDIR && errno != ELOOP);
    if (is_tree && (root < 0 || walk_tree(root, &visitor) != 0)) change.failure = errno;
  }
  if (change.failure != 0) answer_error(socket, change.failure, "change");
  else answer_ok(socket);
}
