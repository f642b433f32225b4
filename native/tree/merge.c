/*
 * Several layers as one: see tree.h.
 *
 * From the lowest to the topmost each is laid over what is there, as the kernel's overlay would show it, with one
 * difference: what deletes or hides something of the layers that are not among them has to stay. Files are linked, not
 * copied: layers never change, and mksquashfs only reads. What is replaced is moved away, never walked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tree.h"

/* The kernel's bound for a list of names and for a value. */
enum { XATTR_BYTES_MAX = 65536 };

struct merge {
  int into;
  int replaced; /* a directory beside it */
  unsigned long long moved;
};

static int move_away(struct merge *merge, int directory, const char *name) {
  char number[32];
  snprintf(number, sizeof number, "%llu", merge->moved++);
  return renameat(directory, name, merge->replaced, number);
}

/* Kept by the host's security module, for files of its own. */
static bool is_hosts(const char *name) { return strncmp(name, "security.", 9) == 0; }

/* `user.overlay.opaque` of what lay there stays; everything else becomes as in the upper one. */
static int copy_attributes(int from, int to) {
  static char names[XATTR_BYTES_MAX];
  static char value[XATTR_BYTES_MAX];
  ssize_t size = flistxattr(to, names, sizeof names);
  for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
    if (is_hosts(name) || strcmp(name, OVERLAY_OPAQUE) == 0) continue;
    if (fremovexattr(to, name) != 0) return -1;
  }
  if (size >= 0) size = flistxattr(from, names, sizeof names);
  for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
    if (is_hosts(name)) continue;
    ssize_t bytes = fgetxattr(from, name, value, sizeof value);
    if (bytes < 0 || fsetxattr(to, name, value, (size_t)bytes, 0) != 0) return -1;
  }
  return size < 0 && errno != ENOTSUP ? -1 : 0;
}

static int copy_owner(int from, int to, struct stat *status) {
  if (fstat(from, status) != 0 || fchown(to, status->st_uid, status->st_gid) != 0) return -1;
  return fchmod(to, status->st_mode & 07777);
}

static int lay_directory(struct merge *merge, int from, int to, const char *name) {
  struct stat present;
  cleanup_fd upper = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (upper < 0) return -1;
  bool hides = tree_is_opaque(upper);
  bool is_there = fstatat(to, name, &present, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there && errno != ENOENT) return -1;
  if (is_there && (hides || !S_ISDIR(present.st_mode))) {
    /* Over a file or a whiteout a directory is not merged with what lies below that. */
    hides = true;
    if (move_away(merge, to, name) != 0) return -1;
    is_there = false;
  }
  if (!is_there && mkdirat(to, name, 0700) != 0) return -1;
  cleanup_fd made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return made < 0 || (hides && tree_set_opaque(made) != 0) ? -1 : 0;
}

/* Also whiteouts: they go on hiding what the layers below have. */
static int lay_file(struct merge *merge, int from, int to, const char *name) {
  if (linkat(from, name, to, name, 0) == 0) return 0;
  if (errno != EEXIST || move_away(merge, to, name) != 0) return -1;
  return linkat(from, name, to, name, 0);
}

static int visit(void *context, int directory, const char *path) {
  struct merge *merge = context;
  struct stat own;
  cleanup_fd to = open_beneath(merge->into, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  int result = to < 0 ? -1 : copy_attributes(directory, to);
  if (result == 0) result = copy_owner(directory, to, &own);
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    struct stat status;
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) result = -1;
    else if (S_ISDIR(status.st_mode)) result = lay_directory(merge, directory, to, name);
    else result = lay_file(merge, directory, to, name);
  }
  int number = errno;
  closedir(entries);
  errno = number;
  if (result != 0) return -1;
  const struct timespec times[2] = {own.st_atim, own.st_mtim};
  return futimens(to, times);
}

/* What a snapshot has told as gone from the one it lies on: with that it is one now, and no layer below has the name. */
static int drop_gone(void *context, int directory, const char *path) {
  (void)context;
  (void)path;
  struct stat own;
  bool is_changed = false;
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  int result = fstat(directory, &own);
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    struct stat status;
    if (entry->d_type != DT_CHR && entry->d_type != DT_UNKNOWN) continue;
    result = fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW);
    if (result != 0 || !S_ISCHR(status.st_mode) || status.st_rdev != 0 || (status.st_mode & 07777) != TREE_GONE_MODE) continue;
    result = unlinkat(directory, entry->d_name, 0);
    is_changed = true;
  }
  int number = errno;
  closedir(entries);
  errno = number;
  const struct timespec times[2] = {own.st_atim, own.st_mtim};
  return result == 0 && is_changed ? futimens(directory, times) : result;
}

int tree_merge(int data_fd, const struct tree_stack *stack, struct fault *fault) {
  struct merge merge = {.into = stack->into, .replaced = stack->replaced};
  const struct tree_visitor visitor = {.visit = visit, .context = &merge};
  for (size_t left = stack->count; left > 0; left--) {
    cleanup_fd layer = open_beneath(data_fd, stack->layers[left - 1], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (layer < 0) return fault_set(fault, "layer_corrupt", "can't open \"%s\"", stack->layers[left - 1]);
    if (tree_each_directory(layer, &visitor, fault) != 0) return -1;
  }
  const struct tree_visitor dropping = {.visit = drop_gone};
  return tree_each_directory(merge.into, &dropping, fault);
}
