/*
 * The ids of one sandbox's range for trees of the data directory. Runs in the privileged helper, because only who has rights
 * over the file system may map the ids of a mount.
 *
 * Whoever asks brings the mounts and chooses a range, never the map: 65,536 ids, those of the common range on the disk and
 * those of the range in the mount. Both are the daemon's to give away. What on the disk has another id, root's above all,
 * has in such a mount an id that nobody is. So it does not matter which mounts they are: who made them made them with his own
 * rights, and what he may not undo there (read-only, no devices, no set-uid) stays so. A copy that the helper made of a
 * mount of the host's would have such flags for him to take off. The kernel maps no mount that is attached anywhere.
 */
#include <fcntl.h>

#include "launch/helper_verbs.h"
#include "common/syscalls.h"

int helper_trees_map(const int *trees, unsigned max, int namespace, struct fault *fault) {
  for (unsigned i = 0; i < max && trees[i] >= 0; i++) {
    if (sys_map_ids(trees[i], namespace) != 0) {
      return fault_set(fault, "launch_failed", "can't attach a layer or an upper in the ids of a sandbox");
    }
  }
  return 0;
}
