/*
 * Writing a file. With `atomic` the bytes go to a temporary file beside the target, which takes its place when all have come: an
 * upload that ends early leaves what was there. With an offset they go into the file as it is, which ends there where it is to be cut. As editors do, a symlink is written through to what it names, and what is
 * replaced hands its mode and owner on. Other hard links of a replaced file keep the old bytes, and it must be writable
 * for whoever asks: the right to its directory alone is not taken for the right to the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/request.h"
#include "init/temporary.h"

enum { LINKS_MAX = 40 }; /* The kernel's own bound. */

struct writing {
  uint64_t mode;
  uint64_t create_parents;
  uint64_t atomic;
  uint64_t append;
  uint64_t offset;
  uint64_t size;
  uint64_t exclusive;
  struct owner owner;
};

static bool parse(struct writing *writing) {
  *writing = (struct writing){.mode = 0644};
  return request_integer(FIELD_MODE, 0, 07777, &writing->mode) &&
         request_integer(FIELD_CREATE_PARENTS, 0, 1, &writing->create_parents) &&
         request_integer(FIELD_ATOMIC, 0, 1, &writing->atomic) && request_integer(FIELD_APPEND, 0, 1, &writing->append) &&
         request_integer(FIELD_OFFSET, 0, INTEGER_MAX, &writing->offset) &&
         request_integer(FIELD_SIZE, 0, INTEGER_MAX, &writing->size) &&
         request_integer(FIELD_EXCLUSIVE, 0, 1, &writing->exclusive) && owner_of_request(&writing->owner) &&
         writing->atomic + writing->append + request.has[FIELD_OFFSET] <= 1 &&
         (request.has[FIELD_OFFSET] || !request.has[FIELD_SIZE]) && request.has[FIELD_INODE] == request.has[FIELD_CHANGED_US];
}

/* All bytes up to `end`. False after an answer, or where the client is gone. */
static bool receive_into(int socket, int fd) {
  for (ssize_t got; (got = file_receive(socket)) != 0;) {
    if (got < 0) return false;
    if (file_put(fd, scratch, (size_t)got) == 0) continue;
    answer_error(socket, errno, "write");
    return false;
  }
  return true;
}

/* A mode that was asked for holds also for a file that existed, and past the umask. After the bytes, because writing clears
 * the set-id bits. Some file systems report a full disk only at the close. */
static void finish(int socket, int fd, const struct writing *writing) {
  if (set_attributes(fd, request.has[FIELD_MODE] ? (int64_t)writing->mode : -1, &writing->owner) != 0) {
    answer_error(socket, errno, "mode");
    (void)close(fd);
  } else if (close(fd) != 0) {
    answer_error(socket, errno, "close");
  } else {
    answer_ok(socket);
  }
}

static void write_in_place(int socket, const char *path, const struct writing *writing) {
  int how = writing->append == 1 ? O_APPEND : request.has[FIELD_OFFSET] ? 0 : O_TRUNC;
  int flags = O_WRONLY | O_CREAT | how | (writing->exclusive == 1 ? O_EXCL : 0);
  cleanup_fd fd = file_open(AT_FDCWD, path, flags, (mode_t)writing->mode);
  if (fd < 0) {
    answer_error(socket, errno, "open");
    return;
  }
  if ((request.has[FIELD_SIZE] && ftruncate(fd, (off_t)writing->size) != 0) ||
      (request.has[FIELD_OFFSET] && lseek(fd, (off_t)writing->offset, SEEK_SET) < 0)) {
    answer_error(socket, errno, "write");
    return;
  }
  if (receive_into(socket, fd)) finish(socket, take_fd(&fd), writing);
}

/* What the path names behind all symlinks, also where nothing stands there yet. Returns 0 or -1 with errno. */
static int follow(char path[GUEST_PATH_BYTES_MAX]) {
  for (int i = 0; i < LINKS_MAX; i++) {
    char target[GUEST_PATH_BYTES_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return errno == EINVAL || errno == ENOENT ? 0 : -1;
    target[length] = '\0';
    char *slash = strrchr(path, '/');
    size_t kept = target[0] == '/' ? 0 : (size_t)(slash - path) + 1;
    if (kept + (size_t)length >= GUEST_PATH_BYTES_MAX) {
      errno = ENAMETOOLONG;
      return -1;
    }
    memcpy(path + kept, target, (size_t)length + 1);
  }
  errno = ELOOP;
  return -1;
}

/* Whether what stands there is still what the client has seen. */
static bool is_as_seen(const struct stat *stat) {
  return (stat->st_ino & INTEGER_MAX) == request.fields[FIELD_INODE].number &&
         file_changed_us(stat) == request.fields[FIELD_CHANGED_US].number;
}

/* What is to be replaced; st_mode 0: nothing. Refused before any byte is taken, and looked at again at the end. */
static int look(int directory, const char *name, const struct writing *writing, struct stat *stat) {
  *stat = (struct stat){.st_mode = 0};
  errno = 0;
  if (fstatat(directory, name, stat, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) return -1;
    stat->st_mode = 0;
    if (!request.has[FIELD_INODE]) return 0;
    errno = ESTALE;
    return -1;
  }
  if (writing->exclusive == 1) errno = EEXIST;
  else if (S_ISDIR(stat->st_mode)) errno = EISDIR;
  else if (!S_ISREG(stat->st_mode)) errno = EINVAL;
  else if (request.has[FIELD_INODE] && !is_as_seen(stat)) errno = ESTALE;
  else return faccessat(directory, name, W_OK, AT_EACCESS);
  return -1;
}

/* As the file was that it replaces, or as was asked for. */
static int dress(int fd, const struct stat *before, const struct writing *writing) {
  if (before->st_mode == 0) {
    mode_t mask = umask(0);
    (void)umask(mask);
    int64_t mode = (int64_t)(request.has[FIELD_MODE] ? writing->mode : writing->mode & ~(uint64_t)mask);
    return set_attributes(fd, mode, &writing->owner);
  }
  struct owner owner = {writing->owner.uid == (uid_t)-1 ? before->st_uid : writing->owner.uid,
                        writing->owner.gid == (gid_t)-1 ? before->st_gid : writing->owner.gid};
  mode_t mode = request.has[FIELD_MODE] ? (mode_t)writing->mode : before->st_mode & 07777;
  if (set_attributes(fd, mode, &owner) == 0) return 0;
  /* Who may write to a file need not be able to give one away. Then it is his, and set-id bits would say who he is. */
  if ((errno != EPERM && errno != EINVAL) || writing->owner.uid != (uid_t)-1 || writing->owner.gid != (gid_t)-1) return -1;
  return set_attributes(fd, mode & 0777, &writing->owner);
}

static void write_atomically(int socket, const char *asked, const struct writing *writing) {
  char path[GUEST_PATH_BYTES_MAX], name[NAME_MAX + 1];
  memcpy(path, asked, strlen(asked) + 1);
  struct stat before, now;
  if (writing->exclusive == 0 && follow(path) != 0) {
    answer_error(socket, errno, "open");
    return;
  }
  cleanup_fd directory = open_parent_of(path, name);
  bool is_directory = path[strlen(path) - 1] == '/';
  if (is_directory) errno = EISDIR;
  if (directory < 0 || is_directory || look(directory, name, writing, &before) != 0) {
    answer_error(socket, errno, "open");
    return;
  }
  cleanup_fd fd = temporary_create(directory);
  if (fd < 0) {
    answer_error(socket, errno, "open");
    return;
  }
  if (receive_into(socket, fd)) {
    const char *failed = NULL;
    if (dress(fd, &before, writing) != 0) failed = "mode";
    else if (close(take_fd(&fd)) != 0) failed = "close";
    else if (look(directory, name, writing, &now) != 0) failed = "open";
    else if (temporary_keep(name, writing->exclusive == 1) != 0) failed = "replace";
    if (failed != NULL) answer_error(socket, errno, failed);
    else answer_ok(socket);
  }
  temporary_remove();
}

void file_write(int socket) {
  struct writing writing;
  if (!parse(&writing)) {
    answer_bad_request(socket, "a field is out of range or has not what belongs to it");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  if (writing.create_parents == 1 && make_parents(path, &writing.owner) != 0) {
    answer_error(socket, errno, "parent directories");
    return;
  }
  if (writing.atomic == 0) write_in_place(socket, path, &writing);
  else write_atomically(socket, path, &writing);
}
