/* Names of a directory of the host that a sandbox sees as empty: see hidden_names.h. */
#include "launch/hidden_names.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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

static int hide(int work, int tree, const char *name, struct fault *fault) {
  struct stat status;
  cleanup_fd found = open_beneath(tree, name, O_PATH | O_NOFOLLOW);
  if (found < 0 || fstat(found, &status) != 0 || S_ISLNK(status.st_mode)) {
    errno = 0;
    return fault_set(fault, "host_directory_refused", "\"%s\" can't be hidden: it is gone, or a link is there or on the way", name);
  }
  cleanup_fd cover = cover_of(work, S_ISDIR(status.st_mode));
  if (cover >= 0 && syscall(429 /* move_mount */, cover, "", found, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0) return 0;
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
