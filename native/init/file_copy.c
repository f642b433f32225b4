/*
 * Copying a file, or a tree to a place where nothing stands. Modes, times, symlinks, FIFOs and holes come along, owners where that
 * is allowed; what was one file under several names becomes several. A file replaces another one in one step.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/request.h"
#include "init/temporary.h"
#include "init/walk.h"

enum { COPY_BYTES = 16777216 /* between two looks whether something is to be told */ };

struct copying {
  int socket;
  int root; /* of the copy */
  struct stat root_stat;
  int failure;
};

/* From `at` to `end` of both files. Returns 0 or -1 with errno. */
static int copy_range(int socket, int from, int to, off_t at, off_t end) {
  off_t out = at;
  while (at < end) {
    answer_progress(socket);
    size_t length = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
    ssize_t got = copy_file_range(from, &at, to, &out, length, 0);
    if (got == 0) return 0; /* Shorter since it was looked at. */
    if (got > 0 || errno == EINTR) continue;
    /* File systems that know no such call, or not between each other. */
    if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS) return -1;
    got = pread(from, scratch, length < sizeof scratch ? length : sizeof scratch, at);
    if (got <= 0) return (int)got;
    if (pwrite(to, scratch, (size_t)got, out) != got) return -1;
    at += got;
    out += got;
  }
  return 0;
}

static int copy_bytes(int socket, int from, int to, off_t size) {
  for (off_t at = 0; at < size;) {
    off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break; /* Nothing but a hole to the end. */
    if (data < 0) data = at;               /* A file system without holes. */
    off_t hole = lseek(from, data, SEEK_HOLE);
    if (hole < 0 || hole > size) hole = size;
    if (copy_range(socket, from, to, data, hole) != 0) return -1;
    at = hole;
  }
  return ftruncate(to, size);
}

/* Owner where that is allowed, mode and times. */
static int dress(int fd, const struct stat *stat) {
  struct owner owner = {stat->st_uid, stat->st_gid}, nobody = {(uid_t)-1, (gid_t)-1};
  mode_t mode = stat->st_mode & 07777;
  if (set_attributes(fd, mode, &owner) != 0) {
    if (errno != EPERM && errno != EINVAL) return -1;
    if (set_attributes(fd, mode & 01777, &nobody) != 0) return -1;
  }
  struct timespec times[2] = {stat->st_atim, stat->st_mtim};
  (void)futimens(fd, times); /* Of a file that was given away the times stay: they are no reason to have no copy. */
  return 0;
}

/* A regular file under its name in `directory`, where nothing may stand if `is_exclusive`. */
static int copy_file(int socket, int from, int directory, const char *name, bool is_exclusive) {
  struct stat stat;
  if (fstat(from, &stat) != 0) return -1;
  cleanup_fd to = temporary_create(directory);
  if (to < 0) return -1;
  if (copy_bytes(socket, from, to, stat.st_size) == 0 && dress(to, &stat) == 0 && temporary_keep(name, is_exclusive) == 0) return 0;
  int failure = errno;
  temporary_remove();
  errno = failure;
  return -1;
}

/* What is neither file nor directory. */
static int copy_special(const struct walk_entry *entry, int directory) {
  const char *target = link_target(entry->directory, entry->name, &entry->stat);
  if (S_ISLNK(entry->stat.st_mode)) {
    if (target == NULL || symlinkat(target, directory, entry->name) != 0) return -1;
  } else if (mknodat(directory, entry->name, entry->stat.st_mode & (S_IFMT | 0777), entry->stat.st_rdev) != 0) {
    return -1;
  }
  /* Where it is not allowed it belongs to who copies. */
  (void)fchownat(directory, entry->name, entry->stat.st_uid, entry->stat.st_gid, AT_SYMLINK_NOFOLLOW);
  return 0;
}

/* The directory of the copy in which the entry is to stand. */
static int open_place(const struct copying *copying, const struct walk_entry *entry) {
  char parent[GUEST_PATH_BYTES_MAX];
  size_t length = (size_t)(strlen(entry->path) - strlen(entry->name));
  if (length == 0) return dup(copying->root);
  memcpy(parent, entry->path, length - 1);
  parent[length - 1] = '\0';
  return open_below(copying->root, parent, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
}

static int copy_entry(const struct copying *copying, const struct walk_entry *entry) {
  cleanup_fd place = open_place(copying, entry);
  if (place < 0) return -1;
  /* Closed to others until all is in it: `leave` opens it. */
  if (S_ISDIR(entry->stat.st_mode)) return mkdirat(place, entry->name, 0700);
  if (!S_ISREG(entry->stat.st_mode)) return copy_special(entry, place);
  cleanup_fd from = file_open(entry->directory, entry->name, O_RDONLY | O_NOFOLLOW, 0);
  if (from < 0) return errno == ENOENT ? 0 : -1; /* Removed since it was seen. */
  return copy_file(copying->socket, from, place, entry->name, true);
}

static bool visit(void *owner, const struct walk_entry *entry) {
  struct copying *copying = owner;
  answer_progress(copying->socket);
  bool is_itself = entry->stat.st_ino == copying->root_stat.st_ino && entry->stat.st_dev == copying->root_stat.st_dev;
  if (is_itself) copying->failure = EINVAL; /* A copy into what is copied has no end. */
  else if (copy_entry(copying, entry) != 0) copying->failure = errno;
  return copying->failure == 0;
}

static bool leave(void *owner, const struct walk_entry *entry) {
  struct copying *copying = owner;
  cleanup_fd made = open_below(copying->root, entry->path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
  if (made < 0 || dress(made, &entry->stat) != 0) copying->failure = errno;
  return copying->failure == 0;
}

static int copy_tree(int socket, int from, int directory, const char *name) {
  struct stat stat;
  struct copying copying = {.socket = socket};
  if (fstat(from, &stat) != 0 || mkdirat(directory, name, 0700) != 0) return -1;
  cleanup_fd root = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0 || fstat(root, &copying.root_stat) != 0) return -1;
  copying.root = root;
  struct walk_visitor visitor = {.owner = &copying, .visit = visit, .leave = leave, .depth_max = GUEST_WALK_DEPTH_MAX, .is_strict = true};
  if (walk_tree(from, &visitor) != 0) return -1;
  errno = copying.failure;
  return copying.failure == 0 ? dress(root, &stat) : -1;
}

static int copy(int socket, const char *path, const char *target, bool is_exclusive) {
  char name[NAME_MAX + 1];
  cleanup_fd directory = open_parent_of(target, name);
  if (directory < 0) return -1;
  cleanup_fd from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat stat;
  if (from < 0 || fstat(from, &stat) != 0) return -1;
  if (S_ISREG(stat.st_mode)) return copy_file(socket, from, directory, name, is_exclusive);
  uint64_t recursive = 0;
  (void)request_integer(FIELD_RECURSIVE, 0, 1, &recursive);
  errno = S_ISDIR(stat.st_mode) ? EISDIR : EINVAL;
  if (!S_ISDIR(stat.st_mode) || recursive == 0) return -1;
  return copy_tree(socket, from, directory, name);
}

void file_copy(int socket) {
  uint64_t create_parents = 0, exclusive = 0;
  const char *target = request_path(FIELD_TARGET);
  struct owner nobody = {(uid_t)-1, (gid_t)-1};
  if (target == NULL || !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents) ||
      !request_integer(FIELD_EXCLUSIVE, 0, 1, &exclusive)) {
    answer_bad_request(socket, "the target is not an absolute path, or a field is out of range");
  } else if (create_parents == 1 && make_parents(target, &nobody) != 0) {
    answer_error(socket, errno, "parent directories");
  } else if (copy(socket, request_path(FIELD_PATH), target, exclusive == 1) != 0) {
    answer_error(socket, errno, "copy");
  } else {
    answer_ok(socket);
  }
}
