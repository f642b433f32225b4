/* Names of a directory of the host that a sandbox sees as empty: see hidden_names.h. */
#include "launch/hidden_names.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "common/syscalls.h"

/* A directory that exists on every host; what lies below it in a namespace of our own concerns nobody. */
#define WORK "/tmp"

/* A file system of ours with what covers, and the place where the tree is while it is covered. */
static int make_work(void) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", WORK, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,nr_inodes=8,mode=755") != 0) {
    return -1;
  }
  cleanup_fd work = open(WORK, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (work < 0 || mkdirat(work, "tree", 0700) != 0 || mkdirat(work, "empty", 0555) != 0 ||
      mknodat(work, "nothing", S_IFREG | 0444, 0) != 0) {
    return -1;
  }
  return take_fd(&work);
}

/* A clone for each: a mount has one place. */
static int cover_of(int work, bool is_directory) {
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
  cleanup_fd cover = sys_open_tree(work, is_directory ? "empty" : "nothing", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (cover < 0 || sys_mount_setattr(cover, AT_EMPTY_PATH, &attributes) != 0) return -1;
  return take_fd(&cover);
}

/* Each directory on the way lies over itself. Whoever could rename it would have what it holds uncovered at the next start. */
static int pin_parents(int tree, const char *name) {
  char parent[REQUEST_PATH_BYTES_MAX + 1];
  struct statx whole;
  for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    if ((size_t)(slash - name) >= sizeof parent) return -1;
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - name), name);
    cleanup_fd at = open_beneath(tree, parent, O_PATH | O_DIRECTORY);
    if (at < 0 || syscall(SYS_statx, at, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &whole) != 0) return -1;
    if ((whole.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) continue;
    cleanup_fd self = sys_open_tree(at, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (self < 0 || sys_move_mount_onto(self, at) != 0) return -1;
  }
  return 0;
}

static int hide(int work, int tree, const char *name, struct fault *fault) {
  struct stat status;
  cleanup_fd found = pin_parents(tree, name) != 0 ? -1 : open_beneath(tree, name, O_PATH | O_NOFOLLOW);
  if (found < 0 || fstat(found, &status) != 0 || S_ISLNK(status.st_mode)) {
    errno = 0;
    return fault_set(fault, "host_directory_refused", "\"%s\" can't be hidden: it is gone, or a link is there or on the way", name);
  }
  cleanup_fd cover = cover_of(work, S_ISDIR(status.st_mode));
  if (cover >= 0 && sys_move_mount_onto(cover, found) == 0) return 0;
  return fault_set(fault, "host_directory_refused", "can't hide \"%s\"", name);
}

int hidden_names_cover(int tree, const struct mount_wish *wish, struct fault *fault) {
  const char *name = wish->hidden;
  cleanup_fd work = make_work();
  if (work < 0 || sys_move_mount(tree, work, "tree") != 0) {
    return fault_set(fault, "launch_failed", "can't cover what \"/%s\" of the host hides", wish->source);
  }
  cleanup_fd placed = open_beneath(work, "tree", O_PATH | O_DIRECTORY);
  for (size_t i = 0; i < wish->hidden_count; i++, name += strlen(name) + 1) {
    if (placed < 0 || hide(work, placed, name, fault) != 0) return -1;
  }
  int covered = sys_open_tree(placed, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  (void)umount2(WORK, MNT_DETACH); /* What the host has there may be wished for next. */
  return covered >= 0 ? covered : fault_set(fault, "launch_failed", "can't attach \"/%s\" of the host", wish->source);
}
