/* What the places of a box are made of: see place_trees.h. */
#include "launch/place_trees.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/mounts.h"
#include "common/syscalls.h"

#define CLONE_WHOLE (AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)

bool places_have_tree(const struct mount_wish *wish) {
  switch (wish->place) {
    case PLACE_NONE:
    case PLACE_BIND:
    case PLACE_OVERLAY:
    case PLACE_FILE:
    case PLACE_SOCKET:
    case PLACE_DEVICE: return true;
    case PLACE_PRIVATE:
    case PLACE_WHITEOUT:
    case PLACE_DENY:
    case PLACE_LINK: return false;
  }
  return false;
}

const char *places_detail(const struct mount_wish *wish) {
  if (wish->own != NULL) return wish->own;
  if (wish->place == PLACE_LINK) return wish->source;
  return wish->place == PLACE_PRIVATE ? wish->identity : "";
}

/* Device, inode, and the number of the device that it is: a node that was made anew may have the old one's inode. */
static int check_device(int source, const struct mount_wish *wish, struct fault *fault) {
  struct stat status;
  struct statvfs system;
  char text[72];
  if (fstat(source, &status) != 0 || fstatvfs(source, &system) != 0) return fault_set(fault, "host_path_refused", "can't look at \"/%s\" of the host", wish->source);
  errno = 0;
  if (!S_ISCHR(status.st_mode)) return fault_set(fault, "host_path_refused", "\"/%s\" of the host is no character device", wish->source);
  snprintf(text, sizeof text, "%llu:%llu:%llu", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino, (unsigned long long)status.st_rdev);
  if (strcmp(text, wish->identity) != 0) return fault_set(fault, "host_path_refused", "\"/%s\" of the host is another device than a moment ago", wish->source);
  if ((system.f_flag & ST_NODEV) == 0) return 0;
  return fault_set(fault, "host_path_refused", "\"/%s\" lies on a file system whose devices can't be opened (nodev)", wish->source);
}

/* Directories and regular files alone, but for a socket or a device that was asked for as one: what opens a device or a pipe speaks with the host. */
int places_open(const struct launcher *launcher, const struct mount_wish *wish, struct fault *fault) {
  bool is_own = wish->place == PLACE_FILE;
  struct stat status;
  cleanup_fd root = is_own ? dup(launcher->data_fd) : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  cleanup_fd source = root < 0 ? -1 : open_beneath(root, wish->source, O_PATH);
  if (source < 0 || fstat(source, &status) != 0) {
    return fault_set(fault, "host_path_refused", "can't open \"/%s\" of the host", wish->source);
  }
  if (wish->place == PLACE_DEVICE) return check_device(source, wish, fault) == 0 ? take_fd(&source) : -1;
  errno = 0;
  if (wish->place == PLACE_SOCKET && !S_ISSOCK(status.st_mode)) return fault_set(fault, "host_path_refused", "\"/%s\" of the host is no socket", wish->source);
  bool is_fine = wish->place == PLACE_SOCKET || S_ISREG(status.st_mode) || (S_ISDIR(status.st_mode) && !is_own);
  if (!is_fine || (wish->place == PLACE_OVERLAY && !S_ISDIR(status.st_mode))) {
    return fault_set(fault, "host_path_refused", "\"/%s\" of the host is no directory%s", wish->source,
                     wish->place == PLACE_OVERLAY ? "" : " and no regular file");
  }
  if (!is_own && !mounts_are_identical(source, wish->identity)) {
    return fault_set(fault, "host_path_refused", "\"/%s\" of the host is another one than a moment ago", wish->source);
  }
  return take_fd(&source);
}

/* Its mount comes without a map of ids: files of the data directory are the daemon's, behind a directory that is closed to others. */
static int check_readable(int source, const struct mount_wish *wish, struct fault *fault) {
  struct stat status;
  if (fstat(source, &status) == 0 && (status.st_mode & S_IROTH) != 0) return 0;
  errno = 0;
  return fault_set(fault, "launch_failed", "\"%s\" of the data directory can't be read by the sandbox: chmod o+r", wish->source);
}

/* In a root of layers a tree with others on it is refused, as mounts.h refuses it. */
static int take(const struct launcher *launcher, const struct request *request, const struct mount_wish *wish,
                unsigned root_id, struct fault *fault) {
  bool is_vmm = request->is_vmm;
  bool is_in_layers = wish->own != NULL && wish->place != PLACE_FILE;
  cleanup_fd source = places_open(launcher, wish, fault);
  if (source < 0 || (is_vmm && wish->own == NULL && check_readable(source, wish, fault) != 0)) return -1;
  cleanup_fd tree = sys_open_tree(source, "", is_in_layers ? CLONE_WHOLE & ~AT_RECURSIVE : CLONE_WHOLE);
  if (tree < 0) return fault_set(fault, "host_path_refused", "can't attach \"/%s\" of the host", wish->source);
  if (is_in_layers && mounts_map(launcher, wish, root_id, tree, fault) != 0) return -1;
  bool is_writable = wish->is_writable && wish->place == PLACE_BIND;
  /* A device is used on a read-only mount, too; its mode can't be changed there. */
  unsigned closed = wish->place == PLACE_DEVICE ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV;
  if (is_vmm && wish->own == NULL) closed |= MOUNT_ATTR_NOEXEC;
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | closed | (is_writable ? 0 : MOUNT_ATTR_RDONLY),
                                  .propagation = MS_PRIVATE};
  if (sys_mount_setattr(tree, AT_EMPTY_PATH | AT_RECURSIVE, &attributes) == 0) return take_fd(&tree);
  return fault_set(fault, "host_path_refused", "can't set the flags of \"/%s\"", wish->source);
}

int places_take_all(const struct launcher *launcher, const struct request *request, unsigned root_id,
                    int trees[MOUNTS_MAX], struct fault *fault) {
  for (size_t i = 0; i < request->mount_count; i++) {
    const struct mount_wish *wish = &request->mounts[i];
    if (wish->place == PLACE_NONE || !places_have_tree(wish)) continue;
    trees[i] = take(launcher, request, wish, root_id, fault);
    if (trees[i] < 0) return -1;
  }
  return 0;
}
