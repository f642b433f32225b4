/*
 * What stands for "deleted" and "not merged" in layers of other tools: see tree.h.
 *
 * The kernel's overlay in a user namespace knows a character device 0:0 and `user.overlay.opaque`. fuse-overlayfs and
 * builders of container images also write files: `.wh.NAME` deletes NAME of the layers below, `.wh..wh..opq` hides all
 * that they have in the directory it lies in. (`trusted.overlay.*` is renamed before unpacking: host/src/layers/trusted-marks.ts.)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "tree/tree.h"

#define MARK_PREFIX ".wh."
#define MARK_OPAQUE ".wh..wh..opq"
/* The rest of aufs's own names, which mean nothing to anybody else. */
#define MARK_OWN ".wh..wh."

static const char *const foreign_opaque[] = {"user.fuseoverlayfs.opaque"};

static bool is_yes(int directory, const char *name) {
  char value[4];
  return fgetxattr(directory, name, value, sizeof value) == 1 && value[0] == 'y';
}

bool tree_is_opaque(int directory) { return is_yes(directory, OVERLAY_OPAQUE); }

bool tree_hides_below(int directory, bool is_foreign) {
  struct stat status;
  if (tree_is_opaque(directory)) return true;
  if (!is_foreign) return false;
  for (size_t i = 0; i < sizeof foreign_opaque / sizeof foreign_opaque[0]; i++) {
    if (is_yes(directory, foreign_opaque[i])) return true;
  }
  return fstatat(directory, MARK_OPAQUE, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

bool tree_is_deleted(int directory, const char *name) {
  char mark[NAME_MAX + sizeof MARK_PREFIX];
  struct stat status;
  snprintf(mark, sizeof mark, "%s%s", MARK_PREFIX, name);
  return fstatat(directory, mark, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

const char *tree_meant_name(const char *entry) {
  if (strncmp(entry, MARK_OWN, strlen(MARK_OWN)) == 0) return NULL;
  return strncmp(entry, MARK_PREFIX, strlen(MARK_PREFIX)) == 0 ? entry + strlen(MARK_PREFIX) : entry;
}

int tree_set_opaque(int directory) { return fsetxattr(directory, OVERLAY_OPAQUE, "y", 1, 0); }

static int set_opaque_below(int directory, const char *name) {
  cleanup_fd below = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return below < 0 ? -1 : tree_set_opaque(below);
}

/* The mark goes, what it says stays. What lies beside it under the deleted name is new. */
static int translate(int directory, const char *mark) {
  struct stat status;
  const char *name = mark + strlen(MARK_PREFIX);
  if (fstatat(directory, mark, &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) return 0;
  if (unlinkat(directory, mark, 0) != 0) return -1;
  if (strcmp(mark, MARK_OPAQUE) == 0) return tree_set_opaque(directory);
  if (strncmp(mark, MARK_OWN, strlen(MARK_OWN)) == 0 || strcmp(name, "") == 0) return 0;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return 0;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? mknodat(directory, name, S_IFCHR, makedev(0, 0)) : -1;
  }
  return S_ISDIR(status.st_mode) ? set_opaque_below(directory, name) : 0;
}

static int visit(void *context, int directory, const char *path) {
  (void)context;
  (void)path;
  struct stat before;
  bool is_changed = false;
  int result = fstat(directory, &before);
  for (size_t i = 0; result == 0 && i < sizeof foreign_opaque / sizeof foreign_opaque[0]; i++) {
    if (is_yes(directory, foreign_opaque[i])) result = tree_set_opaque(directory);
  }
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  for (struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
    if (strncmp(entry->d_name, MARK_PREFIX, strlen(MARK_PREFIX)) != 0) continue;
    result = translate(directory, entry->d_name);
    is_changed = true;
  }
  int number = errno;
  closedir(entries);
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  if (result == 0 && is_changed) result = futimens(directory, times);
  else errno = number;
  return result;
}

int tree_translate_marks(int root, struct fault *fault) {
  const struct tree_visitor visitor = {.visit = visit};
  return tree_each_directory(root, &visitor, fault);
}
