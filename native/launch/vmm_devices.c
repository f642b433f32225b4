/* Devices of the host for a VMM: see vmm_devices.h. */
#include "launch/vmm_devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/syscalls.h"
#include "launch/helper.h"
#include "launch/network.h"

/* Where what the helper has made is attached until the old root goes. */
#define MADE "vmm"

static const char *const places[VMM_DEVICES] = {"net/tun", "kvm"};

/* Read-only, or whose id owns the host's node could change its mode for all of the machine. */
static int borrow(unsigned number, struct fault *fault) {
  char path[32];
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
  (void)snprintf(path, sizeof path, "/dev/%s", places[number]);
  cleanup_fd tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (tree >= 0 && sys_mount_setattr(tree, AT_EMPTY_PATH, &attributes) == 0) return take_fd(&tree);
  return fault_set(fault, "launch_failed", "can't attach the host's %s for a VMM", path);
}

int vmm_devices_gather(const struct launcher *launcher, const struct request *request, unsigned root_id, int trees[VMM_DEVICES],
                       struct fault *fault) {
  for (unsigned i = 0; i < VMM_DEVICES; i++) {
    trees[i] = -1;
    if ((request->vmm_devices & 1U << i) == 0) continue;
    trees[i] = launcher->helper_fd < 0 ? borrow(i, fault) : helper_make_vmm_device(launcher->helper_fd, root_id, i, fault);
    if (trees[i] < 0) return -1;
  }
  return 0;
}

static int put(const char *place, unsigned number, int tree) {
  struct stat status;
  char made[32];
  cleanup_fd point = open(place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (point < 0 || fstat(tree, &status) != 0) return -1;
  if (!S_ISDIR(status.st_mode)) return sys_move_mount(tree, AT_FDCWD, place);
  (void)snprintf(made, sizeof made, MADE "/%s", vmm_device_nodes[number].name);
  if (mkdir(MADE, 0755) != 0 && errno != EEXIST) return -1;
  return sys_move_mount(tree, AT_FDCWD, MADE) != 0 ? -1 : mount(made, place, NULL, MS_BIND, NULL);
}

int vmm_devices_put(const char *path, int trees[VMM_DEVICES], struct fault *fault) {
  const unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC;
  char place[48];
  (void)snprintf(place, sizeof place, "%s/net", path);
  if (mount(NULL, path, NULL, flags, NULL) != 0 || mkdir(place, 0755) != 0) {
    return fault_set(fault, "launch_failed", "can't open /dev for the devices of a VMM");
  }
  for (unsigned i = 0; i < VMM_DEVICES; i++) {
    if (trees[i] < 0) continue;
    (void)snprintf(place, sizeof place, "%s/%s", path, places[i]);
    if (put(place, i, trees[i]) != 0) return fault_set(fault, "launch_failed", "can't attach /dev/%s", places[i]);
    close_fd(&trees[i]);
    if (i == VMM_DEVICE_TUN && network_tap_make(place, fault) != 0) return -1;
  }
  if (mount(NULL, path, NULL, flags | MS_RDONLY, NULL) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't make /dev read-only");
}
