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
#include "launch/file.h"
#include "launch/helper.h"
#include "launch/syscalls.h"

enum {
  /* Terminals of a sandbox, those of `exec` among them. The machine has 4,096 for all (kernel.pty.max), of which 1,024
     are kept for itself: no single sandbox can use them up, nor dozens. */
  TERMINALS_MAX = 64,
};

static const struct link {
  const char *name;
  const char *to;
} links[] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},  {"stdout", "/proc/self/fd/1"},
             {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};

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
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
    if (symlinkat(links[i].to, directory, links[i].name) != 0) {
      return fault_set(fault, "launch_failed", "can't make /dev/%s", links[i].name);
    }
  }
  char options[64];
  snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=620,max=%d", TERMINALS_MAX);
  if (mkdirat(directory, "pts", 0755) != 0 ||
      mount("devpts", fd_path(directory, "pts").text, "devpts", MS_NOSUID | MS_NOEXEC, options) != 0) {
    return fault_set(fault, "launch_failed", "can't mount /dev/pts");
  }
  if (mkdirat(directory, "shm", 0755) != 0) return fault_set(fault, "launch_failed", "can't make /dev/shm");
  /* Without MS_NODEV, which would close the nodes. */
  if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't make /dev read-only");
}

int devices_share_memory(const char *path, uint64_t bytes_max, struct fault *fault) {
  char options[128];
  /* One inode per 4 KiB: small files must not cost more kernel memory than the size says. */
  unsigned long long bytes = bytes_max < 4096 ? 4096 : bytes_max;
  snprintf(options, sizeof options, "mode=1777,size=%llu,nr_inodes=%llu", bytes, bytes / 4096 + 8);
  if (mount("shm", path, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't mount /dev/shm");
}
