/*
 * Trees of the data directory as mounts in the ids of one sandbox's range. Runs in the privileged helper, because only who
 * has rights over the file system may map the ids of a mount.
 *
 * Whoever asks chooses names and a range, never the map: 65,536 ids, those of the common range on the disk and those of the
 * range in the mount. Both are the daemon's to give away. What on the disk has another id, root's above all, has in
 * such a mount an id that nobody is.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/descriptor.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "launch/owner.h"
#include "launch/syscalls.h"

static int map_tree(int data_fd, const char *name, int namespace, struct fault *fault) {
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)namespace};
  errno = 0;
  if (!path_is_relative(name)) return fault_set(fault, "invalid_request", "the helper was given a malformed path");
  /* No link, and nothing that is mounted below: its ids are not known here. */
  cleanup_fd directory = open_inside(data_fd, name, O_PATH | O_DIRECTORY);
  struct stat status;
  if (directory >= 0 && fstat(directory, &status) == 0 && !owner_is_of_range(status.st_uid)) {
    errno = 0;
    return fault_set(fault, "invalid_request", "\"%s\" belongs to uid %u", name, status.st_uid);
  }
  cleanup_fd tree = directory < 0 ? -1 : sys_open_tree(directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (tree >= 0 && sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) == 0) return take_fd(&tree);
  return fault_set(fault, "launch_failed", "can't attach \"%s\" in the ids of a sandbox", name);
}

int helper_trees_map(int data_fd, const char *names, size_t bytes, int namespace, struct helper_results *results,
                     struct fault *fault) {
  for (const char *at = names; at < names + bytes;) {
    const char *end = memchr(at, '\0', bytes - (size_t)(at - names));
    errno = 0;
    if (end == NULL || results->count == MESSAGE_DESCRIPTORS_MAX) {
      return fault_set(fault, "invalid_request", "the helper was given malformed names");
    }
    int tree = map_tree(data_fd, at, namespace, fault);
    if (tree < 0) return -1;
    results->all[results->count++] = tree;
    at = end + 1;
  }
  return 0;
}
