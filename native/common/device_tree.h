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

/* In that directory, by who may make nodes. */
int device_nodes_make(int directory);
/* Links, terminals and the place for shared memory beside the nodes; then the mount at `path` is read-only. Returns NULL, or what
   of it can't be made, with errno. */
const char *device_tree_furnish(const char *path);
int device_tree_share_memory(const char *path, uint64_t bytes_max);

#endif
