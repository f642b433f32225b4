/* Reaching directories behind closed ones: see attach.h. */
#include "launch/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/ids.h"
#include "common/syscalls.h"

enum { ATTACHMENTS_MAX = 8 };

/* Whether the daemon's id could open this directory: asked by a child that has become that id. */
static bool is_readable(const char *path) {
  pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    if (setgroups(0, NULL) != 0 || setresgid(ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) != 0 ||
        setresuid(ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) != 0) {
      _exit(2);
    }
    _exit(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 ? 0 : 1);
  }
  int status = 1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The first directory on the way to `path` that others may not search, or "" where only the last is closed. */
static void closed_ancestor(const char *path, char *closed) {
  closed[0] = '\0';
  for (size_t end = 1; path[end] != '\0'; end++) {
    if (path[end] != '/') continue;
    char prefix[PATH_MAX];
    snprintf(prefix, sizeof prefix, "%.*s", (int)end, path);
    struct stat status;
    if (stat(prefix, &status) != 0 || (status.st_mode & S_IXOTH) != 0) continue;
    snprintf(closed, PATH_MAX, "%s", prefix);
    return;
  }
}

/* A detached copy of the directory's mount; with root's files shown as the daemon's where it may not read them. */
static int clone_mount(const struct attachment *wanted, struct fault *fault) {
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  int tree = sys_open_tree(AT_FDCWD, wanted->path, flags | (wanted->is_writable ? AT_RECURSIVE : 0U));
  if (tree < 0) return fault_set(fault, "launch_failed", "can't attach \"%s\"", wanted->path);
  if (wanted->is_writable) return tree;
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
  struct stat status;
  cleanup_fd map = -1;
  if (stat(wanted->path, &status) == 0 && (status.st_mode & S_IROTH) == 0) {
    char daemons[64];
    snprintf(daemons, sizeof daemons, "0 %u %u\n", ROOT_RANGE_FIRST, ROOT_RANGE_IDS);
    map = ids_namespace(daemons);
  }
  if (map >= 0) {
    attributes.attr_set |= MOUNT_ATTR_IDMAP;
    attributes.userns_fd = (unsigned)map;
  }
  if (sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) == 0) return tree;
  fault_set(fault, "launch_failed", "can't attach \"%s\" read-only for the daemon's id; chmod o+rx may mend it",
            wanted->path);
  close(tree);
  return -1;
}

static int place(int tree, const struct attachment *wanted, const char *closed, struct fault *fault) {
  char part[PATH_MAX];
  for (const char *end = wanted->path + strlen(closed) + 1;; end++) {
    end += strcspn(end, "/");
    snprintf(part, sizeof part, "%.*s", (int)(end - wanted->path), wanted->path);
    if (mkdir(part, 0755) != 0 && errno != EEXIST) {
      return fault_set(fault, "launch_failed", "can't make \"%s\" in the daemon's mount namespace", part);
    }
    if (*end == '\0') break;
  }
  if (sys_move_mount(tree, AT_FDCWD, wanted->path) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't attach \"%s\" in the daemon's mount namespace", wanted->path);
}

static bool is_below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  return length > 0 && strncmp(path, directory, length) == 0 && path[length] == '/';
}

int attach_unreachable(const struct attachment *attachments, size_t count, struct fault *fault) {
  static char closed[ATTACHMENTS_MAX][PATH_MAX];
  int trees[ATTACHMENTS_MAX];
  bool in_place[ATTACHMENTS_MAX] = {false};
  if (count > ATTACHMENTS_MAX) return fault_set(fault, "launch_failed", "too many directories to attach");
  for (size_t i = 0; i < count; i++) {
    closed[i][0] = '\0';
    trees[i] = -1;
    if (is_readable(attachments[i].path)) continue;
    closed_ancestor(attachments[i].path, closed[i]);
    in_place[i] = closed[i][0] == '\0';
  }
  /* What lies below a directory that is covered for another one has to be attached as well. */
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < count; j++) {
      if (is_below(attachments[i].path, closed[j])) memcpy(closed[i], closed[j], PATH_MAX);
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (closed[i][0] == '\0' && !in_place[i]) continue;
    if (in_place[i] && attachments[i].is_writable) continue; /* Ours after chown; nothing a mount would mend. */
    trees[i] = clone_mount(&attachments[i], fault);
    if (trees[i] < 0) return -1;
  }
  for (size_t i = 0; i < count; i++) {
    bool is_covered = closed[i][0] == '\0';
    for (size_t j = 0; j < i; j++) is_covered |= strcmp(closed[i], closed[j]) == 0;
    if (is_covered) continue;
    if (mount("squash", closed[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k,nr_inodes=256") != 0) {
      return fault_set(fault, "launch_failed", "can't cover \"%s\" in the daemon's mount namespace", closed[i]);
    }
  }
  for (size_t i = 0; i < count; i++) {
    if (trees[i] < 0) continue;
    if (in_place[i] ? sys_move_mount(trees[i], AT_FDCWD, attachments[i].path) != 0
                    : place(trees[i], &attachments[i], closed[i], fault) != 0) {
      return in_place[i] ? fault_set(fault, "launch_failed", "can't attach \"%s\"", attachments[i].path) : -1;
    }
    close(trees[i]);
  }
  return 0;
}
