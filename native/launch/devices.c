/* /dev of a sandbox: see devices.h. */
#include "launch/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/device_tree.h"
#include "common/file.h"
#include "launch/helper.h"
#include "common/syscalls.h"

int devices_gather(const struct launcher *launcher, unsigned root_id, int *nodes, struct fault *fault) {
  *nodes = -1;
  if (launcher->helper_fd < 0) return 0;
  *nodes = helper_make_devices(launcher->helper_fd, root_id, fault);
  return *nodes < 0 ? -1 : 0;
}

/* Whose id owns the host's node, as root's own does, could change its mode for all of the machine. What is read-only can be used all the same. */
static int keep_mode(int directory, const char *name) {
  struct stat status;
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
  cleanup_fd node = openat(directory, name, O_PATH | O_CLOEXEC);
  if (node < 0 || fstat(node, &status) != 0) return -1;
  /* Linux before 5.12 can't; nothing is lost where it is nobody's. */
  return sys_mount_setattr(node, AT_EMPTY_PATH, &attributes) == 0 || status.st_uid == 65534 ? 0 : -1;
}

/* The host's nodes, each bound over an empty file. */
static int borrow_nodes(int directory) {
  for (size_t i = 0; i < DEVICE_NODES; i++) {
    char host[32];
    cleanup_fd place = openat(directory, device_nodes[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    snprintf(host, sizeof host, "/dev/%s", device_nodes[i].name);
    if (place < 0 || mount(host, fd_path(place, "").text, NULL, MS_BIND, NULL) != 0) return -1;
    if (keep_mode(directory, device_nodes[i].name) != 0) return -1;
  }
  return 0;
}

int devices_furnish(const struct launcher *launcher, const char *path, struct fault *fault) {
  bool is_borrowed = launcher->helper_fd < 0;
  if (is_borrowed && mount("dev", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k,nr_inodes=128") != 0) {
    return fault_set(fault, "launch_failed", "can't mount /dev");
  }
  cleanup_fd directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || (is_borrowed && borrow_nodes(directory) != 0)) {
    return fault_set(fault, "launch_failed", "can't attach the host's device nodes");
  }
  const char *unmade = device_tree_furnish(path);
  return unmade == NULL ? 0 : fault_set(fault, "launch_failed", "can't make /dev/%s", unmade);
}

int devices_share_memory(const char *path, uint64_t bytes_max, struct fault *fault) {
  if (device_tree_share_memory(path, bytes_max) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't mount /dev/shm");
}
