/* What every sandbox's /dev holds. */
#ifndef SQUASH_DEVICE_TREE_H
#define SQUASH_DEVICE_TREE_H
#include <stdint.h>

struct device_node {
  const char *name;
  unsigned major;
  unsigned minor;
};
enum { DEVICE_NODES = 6 };
extern const struct device_node device_nodes[DEVICE_NODES];

/* What a VMM may get of the host's devices besides; sets of them have the bit 1 << N. */
enum { VMM_DEVICE_TUN, VMM_DEVICE_KVM, VMM_DEVICES };
extern const struct device_node vmm_device_nodes[VMM_DEVICES];

/* In that directory, by who may make nodes. */
int device_nodes_make(int directory);
int device_node_make(int directory, const struct device_node *node);
/* Links, terminals and the place for shared memory beside the nodes; then the mount at `path` is read-only. Returns NULL, or what
   of it can't be made, with errno. */
const char *device_tree_furnish(const char *path);
int device_tree_share_memory(const char *path, uint64_t bytes_max);

#endif
