/* /dev of a sandbox: see device_tree.h. */
#include "common/device_tree.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
  /* Terminals of a sandbox, those of `exec` among them. The machine has 4,096 for all (kernel.pty.max), of which 1,024
     are kept for itself: no single sandbox can use them up, nor dozens. */
  TERMINALS_MAX = 64,
};

const struct device_node device_nodes[DEVICE_NODES] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                                                       {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

const struct device_node vmm_device_nodes[VMM_DEVICES] = {[VMM_DEVICE_TUN] = {"tun", 10, 200}, [VMM_DEVICE_KVM] = {"kvm", 10, 232}};

static const struct link {
  const char *name;
  const char *to;
} links[] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},  {"stdout", "/proc/self/fd/1"},
             {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};

int device_node_make(int directory, const struct device_node *node) {
  if (mknodat(directory, node->name, S_IFCHR | 0666, makedev(node->major, node->minor)) != 0) return -1;
  return fchmodat(directory, node->name, 0666, 0); /* Set apart: the umask takes from the first. */
}

int device_nodes_make(int directory) {
  for (size_t i = 0; i < DEVICE_NODES; i++) {
    if (device_node_make(directory, &device_nodes[i]) != 0) return -1;
  }
  return 0;
}

const char *device_tree_furnish(const char *path) {
  char name[64], options[64];
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
    (void)snprintf(name, sizeof name, "%s/%s", path, links[i].name);
    if (symlink(links[i].to, name) != 0) return links[i].name;
  }
  (void)snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=620,max=%d", TERMINALS_MAX);
  (void)snprintf(name, sizeof name, "%s/pts", path);
  if (mkdir(name, 0755) != 0 || mount("devpts", name, "devpts", MS_NOSUID | MS_NOEXEC, options) != 0) return "pts";
  (void)snprintf(name, sizeof name, "%s/shm", path);
  if (mkdir(name, 0755) != 0) return "shm";
  /* Without MS_NODEV, which would close the nodes. */
  return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) == 0 ? NULL : "read-only";
}

int device_tree_share_memory(const char *path, uint64_t bytes_max) {
  char options[128];
  /* One inode per 4 KiB: small files must not cost more kernel memory than the size says. */
  unsigned long long bytes = bytes_max < 4096 ? 4096 : bytes_max;
  (void)snprintf(options, sizeof options, "mode=1777,size=%llu,nr_inodes=%llu", bytes, bytes / 4096 + 8);
  return mount("shm", path, "tmpfs", MS_NOSUID | MS_NODEV, options);
}
