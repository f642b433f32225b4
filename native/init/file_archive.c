/*
 * A tree as a tar in `data` frames, or a single file. What changes while it is read stays a well-formed tar: a file that
 * shrank is filled up with zeros, one that grew is cut, one that is gone is left out. Sockets are left out, as by every tar;
 * several names of one file become several files.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/request.h"
#include "init/tar.h"
#include "init/walk.h"

struct archive {
  int socket;
  size_t used; /* of scratch */
  int failure;
};

static void send_full(struct archive *archive) {
  if (archive->used > 0) answer_data(archive->socket, scratch, archive->used);
  archive->used = 0;
}

static void put_zeros(struct archive *archive, uint64_t count) {
  while (count > 0) {
    if (archive->used == sizeof scratch) send_full(archive);
    size_t room = sizeof scratch - archive->used;
    size_t length = count < room ? (size_t)count : room;
    memset(scratch + archive->used, 0, length);
    archive->used += length;
    count -= length;
  }
}

static void put_header(struct archive *archive, const struct tar_entry *entry) {
  if (sizeof scratch - archive->used < TAR_PACKED_BYTES_MAX) send_full(archive);
  archive->used += tar_pack(scratch + archive->used, entry);
}

/* Exactly `size` bytes, whatever the file has now. Returns 0 or -1 with errno. */
static int put_content(struct archive *archive, int fd, uint64_t size) {
  for (uint64_t left = size; left > 0;) {
    if (archive->used == sizeof scratch) send_full(archive);
    size_t room = sizeof scratch - archive->used;
    ssize_t got = read(fd, scratch + archive->used, left < room ? (size_t)left : room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {
      put_zeros(archive, left);
      break;
    }
    archive->used += (size_t)got;
    left -= (uint64_t)got;
  }
  put_zeros(archive, tar_padding(size));
  return 0;
}

static char type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return TAR_FILE;
    case S_IFDIR: return TAR_DIRECTORY;
    case S_IFLNK: return TAR_SYMLINK;
    case S_IFIFO: return TAR_FIFO;
    default: return 0;
  }
}

static void describe(struct tar_entry *entry, const char *path, const struct stat *stat) {
  entry->type = type_of(stat->st_mode);
  entry->mode = stat->st_mode & 07777;
  entry->uid = stat->st_uid;
  entry->gid = stat->st_gid;
  entry->mtime = stat->st_mtim.tv_sec;
  entry->size = S_ISREG(stat->st_mode) ? (uint64_t)stat->st_size : 0;
  memcpy(entry->path, path, strlen(path) + 1);
  entry->target[0] = '\0';
}

static int put_file(struct archive *archive, int fd, const char *path) {
  static struct tar_entry entry;
  struct stat stat;
  if (fstat(fd, &stat) != 0) return -1;
  describe(&entry, path, &stat);
  put_header(archive, &entry);
  return put_content(archive, fd, entry.size);
}

static int put_entry(struct archive *archive, const struct walk_entry *found) {
  static struct tar_entry entry;
  if (S_ISREG(found->stat.st_mode)) {
    cleanup_fd fd = file_open(found->directory, found->name, O_RDONLY | O_NOFOLLOW, 0);
    /* EINVAL: no file any more. */
    if (fd < 0) return errno == ENOENT || errno == ELOOP || errno == EINVAL ? 0 : -1;
    return put_file(archive, fd, found->path);
  }
  describe(&entry, found->path, &found->stat);
  if (entry.type == 0) return 0;
  if (entry.type == TAR_SYMLINK) {
    const char *target = link_target(found->directory, found->name, &found->stat);
    if (target == NULL) return errno == ENOENT || errno == EINVAL ? 0 : -1;
    memcpy(entry.target, target, strlen(target) + 1);
  }
  put_header(archive, &entry);
  return 0;
}

static bool visit(void *owner, const struct walk_entry *entry) {
  struct archive *archive = owner;
  answer_progress(archive->socket);
  if (put_entry(archive, entry) != 0) archive->failure = errno;
  return archive->failure == 0;
}

void file_archive(int socket) {
  struct archive archive = {.socket = socket};
  char name[NAME_MAX + 1];
  const char *path = request_path(FIELD_PATH);
  struct walk_visitor visitor = {.owner = &archive, .visit = visit, .depth_max = GUEST_WALK_DEPTH_MAX, .is_strict = true};
  cleanup_fd root = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat stat;
  int result = root < 0 ? -1 : fstat(root, &stat);
  if (result == 0 && S_ISDIR(stat.st_mode)) {
    result = walk_tree(root, &visitor);
  } else if (result == 0 && S_ISREG(stat.st_mode)) {
    cleanup_fd parent = open_parent_of(path, name);
    result = parent < 0 ? -1 : put_file(&archive, root, name);
  } else if (result == 0) {
    result = -1;
    errno = EINVAL;
  }
  if (result == 0 && archive.failure != 0) {
    result = -1;
    errno = archive.failure;
  }
  if (result != 0) {
    answer_error(socket, errno, "archive");
    return;
  }
  put_zeros(&archive, 2 * TAR_BLOCK_BYTES);
  send_full(&archive);
  answer_end(socket);
}
