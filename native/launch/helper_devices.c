/*
 * Device nodes for one sandbox: see devices.h. Runs in the privileged helper, because only a file system that the host's
 * root made has nodes that can be opened. The lists are fixed: nobody can ask for another device.
 */
#include <stdio.h>
#include <sys/mount.h>

#include "common/descriptor.h"
#include "common/device_tree.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "common/syscalls.h"

static int make_nodes(int directory, unsigned vmm_device) {
  if (vmm_device == 0) return device_nodes_make(directory);
  return vmm_device > VMM_DEVICES ? -1 : device_node_make(directory, &vmm_device_nodes[vmm_device - 1]);
}

int helper_devices_make(const struct helper_request *request, struct fault *fault) {
  char owner[16];
  snprintf(owner, sizeof owner, "%u", request->owner);
  cleanup_fd context = sys_fsopen("tmpfs");
  /* Inodes for the nodes, for links and directories of the sandbox's start, and for a box's devices. */
  if (context < 0 || sys_fsconfig(context, FSCONFIG_SET_STRING, "source", "dev") != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_STRING, "size", "64k") != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_STRING, "nr_inodes", "128") != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_STRING, "mode", "755") != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_STRING, "uid", owner) != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_STRING, "gid", owner) != 0 ||
      sys_fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL) != 0) {
    return fault_set(fault, "launch_failed", "can't make a file system for device nodes");
  }
  cleanup_fd mount = sys_fsmount(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  if (mount < 0) return fault_set(fault, "launch_failed", "can't mount a file system for device nodes");
  if (make_nodes(mount, request->vmm_device) != 0) return fault_set(fault, "launch_failed", "can't make device nodes");
  return take_fd(&mount);
}
