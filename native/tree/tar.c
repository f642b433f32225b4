/* A tree as a tar: see tar.h. */
#include "tree/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tar_links.h"
#include "tree/tar_sparse.h"
#include "tree/tree.h"
#include "tree/order.h"

enum {
  /* The kernel's bound for a list of names and for a value. */
  XATTR_BYTES_MAX = 65536,
  NOBODY = 65534,
};

struct writing {
  struct tree_tar *tar;
  struct tar_links links;
  struct tar_pax pax;
  struct tree_order order;
  uint64_t lengths;
  bool hides_opaque;    /* of the directory that is told */
  char told[PATH_MAX]; /* the last directory that was, after those above it */
};

static uint64_t id_in_tar(const struct tree_tar *tar, unsigned id) {
  return id < tar->id_first || id - tar->id_first >= TREE_TAR_IDS ? NOBODY : id - tar->id_first;
}

static char type_of(const struct stat *status) {
  switch (status->st_mode & S_IFMT) {
    case S_IFREG: return '0';
    case S_IFLNK: return '2';
    case S_IFCHR: return '3';
    case S_IFBLK: return '4';
    case S_IFDIR: return '5';
    case S_IFIFO: return '6';
    default: return '\0';
  }
}

/* ---- extended attributes ---- */

/*
 * The kernel tells capabilities with the id that is root where they hold, as this namespace sees it. Of the sandbox's
 * root they are told as in its own namespace: without.
 */
static size_t localize_capability(uint8_t *value, size_t length, unsigned id_first) {
  enum { PLAIN_BYTES = 20, BYTES = 24, PLAIN_REVISION = 2, REVISION = 3 };
  if (length != BYTES || value[3] != REVISION) return length;
  unsigned root = value[20] | (unsigned)value[21] << 8 | (unsigned)value[22] << 16 | (unsigned)value[23] << 24;
  if (root != id_first) return length;
  value[3] = PLAIN_REVISION;
  return PLAIN_BYTES;
}

static bool is_told(const char *name) {
  return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0;
}

/* Of files and directories: the kernel gives no others any that are told. */
static int add_attributes(struct writing *writing, int fd) {
  static char names[XATTR_BYTES_MAX];
  static uint8_t value[XATTR_BYTES_MAX];
  ssize_t size = flistxattr(fd, names, sizeof names);
  if (size < 0) return errno == ENOTSUP ? 0 : -1;
  for (const char *name = names; name < names + size; name += strlen(name) + 1) {
    if (!is_told(name) || (writing->hides_opaque && strcmp(name, OVERLAY_OPAQUE) == 0)) continue;
    writing->tar->has_odd_attributes |= strpbrk(name, "=%") != NULL;
    ssize_t got = fgetxattr(fd, name, value, sizeof value);
    if (got < 0 && errno == ENODATA) continue;
    if (got < 0) return -1;
    size_t length = (size_t)got;
    if (name[0] == 's') length = localize_capability(value, length, writing->tar->id_first);
    if (tar_add_attribute(&writing->pax, name, value, length) != 0) return -1;
  }
  return 0;
}

/* ---- entries ---- */

/* What a function of an entry returns where there is none any more. */
enum { LEFT_OUT = 1 };

static bool is_gone(int number) {
  return number == ENOENT || number == ENOTDIR || number == ELOOP || number == ENXIO || number == EINVAL;
}

static int put_head(struct writing *writing, struct tar_head *head, const struct stat *status) {
  head->mode = status->st_mode & 07777;
  head->uid = id_in_tar(writing->tar, status->st_uid);
  head->gid = id_in_tar(writing->tar, status->st_gid);
  head->mtime = status->st_mtim;
  return tar_put_head(writing->tar->out, head, &writing->pax);
}

/* Exactly `size` bytes, whatever the file has now. */
static int put_content(struct writing *writing, int file, uint64_t size) {
  static uint8_t bytes[TAR_OUT_BYTES];
  uint64_t left = size;
  while (left > 0) {
    ssize_t got = read(file, bytes, left < sizeof bytes ? (size_t)left : sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    if (tar_put_bytes(writing->tar->out, bytes, (size_t)got) != 0) return -1;
    left -= (uint64_t)got;
  }
  writing->tar->changed += left > 0 || (size > 0 && read(file, bytes, 1) > 0);
  return tar_put_zeros(writing->tar->out, left + tar_rest_of_block(size));
}

static int put_file(struct writing *writing, const struct tree_place *place, struct tar_head *head) {
  static struct tar_sparse sparse;
  struct stat status;
  cleanup_fd file = open_beneath(place->directory, place->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  int result = file < 0 ? -1 : fstat(file, &status);
  if (file < 0 && !is_gone(errno)) return -1;
  if (file < 0 || (result == 0 && !S_ISREG(status.st_mode))) return LEFT_OUT;
  if (result == 0) result = add_attributes(writing, file);
  if (result != 0) return -1;
  head->size = (uint64_t)status.st_size;
  writing->lengths += head->size;
  errno = EFBIG;
  if (writing->tar->lengths_max > 0 && writing->lengths > writing->tar->lengths_max) return -1;
  bool has_holes = writing->tar->tells_holes && tar_sparse_find(file, &status, &sparse);
  if (has_holes && tar_sparse_head(&sparse, head, &writing->pax) != 0) return -1;
  if (put_head(writing, head, &status) != 0) return -1;
  return has_holes ? tar_sparse_put(writing->tar->out, file, &sparse) : put_content(writing, file, head->size);
}

static int put_directory(struct writing *writing, const struct tree_place *place, struct tar_head *head) {
  char path[PATH_MAX + 1];
  struct stat status;
  cleanup_fd directory = open_beneath(place->directory, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (directory < 0) return is_gone(errno) ? LEFT_OUT : -1;
  if (fstat(directory, &status) != 0 || add_attributes(writing, directory) != 0) return -1;
  snprintf(path, sizeof path, "%s/", place->path[0] == '\0' ? "." : place->path);
  head->path = path;
  return put_head(writing, head, &status);
}

static int put_link(struct writing *writing, const struct tree_place *place, struct tar_head *head) {
  char target[PATH_MAX];
  ssize_t length = readlinkat(place->directory, place->name, target, sizeof target - 1);
  if (length < 0) return is_gone(errno) ? LEFT_OUT : -1;
  target[length] = '\0';
  head->target = target;
  return put_head(writing, head, &place->status);
}

static int put_typed(struct writing *writing, const struct tree_place *place, struct tar_head *head) {
  switch (head->type) {
    case '0': return put_file(writing, place, head);
    case '2': return put_link(writing, place, head);
    case '5': return put_directory(writing, place, head);
    default: return put_head(writing, head, &place->status);
  }
}

static int put_place(struct writing *writing, const struct tree_place *place) {
  const struct stat *status = &place->status;
  struct tar_head head = {.type = type_of(status), .path = place->path, .target = ""};
  bool is_deleted = S_ISCHR(status->st_mode) && status->st_rdev == 0;
  if (head.type == '\0') return 0;
  if (head.type == '3' || head.type == '4') {
    head.major = major(status->st_rdev);
    head.minor = minor(status->st_rdev);
  }
  /* The kernel's overlay makes all its deletions names of one device. */
  bool has_others = status->st_nlink > 1 && !is_deleted && !S_ISDIR(status->st_mode);
  if (has_others && tar_links_find(&writing->links, status, place->path, &head.target) != 0) return -1;
  if (head.target[0] != '\0') head.type = '1';
  int result = put_typed(writing, place, &head);
  if (result != LEFT_OUT) return result;
  writing->pax.used = 0;
  writing->tar->changed++;
  if (has_others) tar_links_forget(&writing->links, status);
  return 0;
}

/* ---- changes ---- */

/* The directories above a path that were not told yet, as they are, but hiding nothing of what lies below them. */
static int put_parents(struct writing *writing, const char *path) {
  char parent[PATH_MAX];
  for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    size_t length = (size_t)(slash - path);
    char after = writing->told[length];
    if (strncmp(writing->told, path, length) == 0 && (after == '/' || after == '\0')) continue;
    memcpy(parent, path, length);
    parent[length] = '\0';
    const struct tree_place place = {.directory = writing->tar->root, .name = parent, .path = parent};
    struct tar_head head = {.type = '5', .target = ""};
    writing->hides_opaque = true;
    int result = put_directory(writing, &place, &head);
    if (result == LEFT_OUT) errno = EAGAIN;
    if (result != 0) return -1;
    memcpy(writing->told, parent, length + 1);
  }
  return 0;
}

static int put_gone(void *context, const char *path) {
  struct writing *writing = context;
  const struct tar_head head = {.type = '3', .path = path, .target = "", .mode = TREE_GONE_MODE};
  return put_parents(writing, path) == 0 ? tar_put_head(writing->tar->out, &head, &writing->pax) : -1;
}

static int visit(void *context, const struct tree_place *place) {
  struct writing *writing = context;
  bool is_opaque;
  if (writing->tar->judge == NULL) return put_place(writing, place);
  int verdict = tree_judge(writing->tar->judge, place, &is_opaque);
  if (verdict < 0) return -1;
  if (verdict == TREE_SAME || place->path[0] == '\0') return 0;
  if (put_parents(writing, place->path) != 0) return -1;
  writing->hides_opaque = verdict == TREE_DIFFERS;
  if (put_place(writing, place) != 0) return -1;
  if (S_ISDIR(place->status.st_mode)) memcpy(writing->told, place->path, strlen(place->path) + 1);
  return 0;
}

int tree_tar_write(struct tree_tar *tar, struct fault *fault) {
  struct writing writing = {.tar = tar, .order = {.root = tar->root, .visit = visit}};
  writing.order.context = &writing;
  if (tar->judge != NULL) {
    tar->judge->gone = put_gone;
    tar->judge->context = &writing;
  }
  int result = tree_in_order(&writing.order);
  if (result == 0 && tar->judge != NULL) result = tree_judge_rest(tar->judge);
  if (result == 0) result = tar_finish(tar->out);
  int number = errno;
  tar->changed += writing.order.missed;
  tar_links_free(&writing.links);
  free(writing.pax.bytes);
  errno = number;
  if (result == 0) return 0;
  return number == ENAMETOOLONG ? fault_set(fault, "snapshot_path_too_long", "a path is longer than %d bytes", PATH_MAX)
                                : fault_set(fault, "launch_failed", "can't write the tree as a tar");
}
