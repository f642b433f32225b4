/* Trying ranges: see ranges_probe.h. */
#include "launch/ranges_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/ids.h"
#include "launch/overlay_probe.h"
#include "common/syscalls.h"

/* What the host mounts there may be of a kind that has no maps, whatever is found out below `tmp`. */
static bool is_one_mount(const struct launcher *launcher) {
  static const char *const names[] = {"layers", "sandboxes"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    cleanup_fd directory = open_inside(launcher->data_fd, names[i], O_PATH | O_DIRECTORY);
    if (directory < 0 && errno != ENOENT) return false;
  }
  return true;
}

/* Maps of tmpfs are younger than those of file systems on disks (Linux 6.3). */
static bool can_map_tmpfs(void) {
  char map[32];
  snprintf(map, sizeof map, "1 %u %u\n", ROOT_RANGE_IDS, SANDBOX_IDS);
  cleanup_fd namespace = ids_namespace(map);
  cleanup_fd context = sys_fsopen("tmpfs");
  if (namespace < 0 || context < 0 || sys_fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL) != 0) return false;
  cleanup_fd mount = sys_fsmount(context, 0);
  return mount >= 0 && sys_map_ids(mount, namespace) == 0;
}

/* On a full disk nothing can be tried. A kernel that maps tmpfs overlays mapped trees, so what is left to ask is the data
   directory's file system. */
static bool can_map_data(const struct launcher *launcher) {
  const int tree = sys_open_tree(launcher->data_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  const struct tree_use use = {NULL, ROOT_RANGE_IDS, &tree, 1};
  bool is_mapped = tree >= 0 && helper_map_trees(launcher->helper_fd, &use, NULL, &(struct fault){0}) == 0;
  if (tree >= 0) close(tree);
  return is_mapped;
}

static bool can_map(const struct launcher *launcher, char *why, size_t size) {
  const struct overlay_trial trial = {.root_id = ROOT_RANGE_IDS};
  if (overlay_probe(launcher, trial, why, size)) return true;
  return (errno == ENOSPC || errno == EDQUOT) && launcher->maps_tmpfs && can_map_data(launcher);
}

void ranges_probe(struct launcher *launcher) {
  char *why = launcher->shared_reason;
  size_t size = sizeof launcher->shared_reason;
  const char *wanted = getenv("SQUASH_IDS");
  if (launcher->is_single || launcher->helper_fd < 0) return;
  launcher->maps_tmpfs = can_map_tmpfs();
  if (wanted != NULL && strcmp(wanted, "shared") == 0) snprintf(why, size, "SQUASH_IDS=shared");
  else if (launcher->overlays_by_fuse) snprintf(why, size, "fuse-overlayfs can't be mounted with a map of ids");
  else if (!is_one_mount(launcher)) snprintf(why, size, "something is mounted at `layers` or `sandboxes` of the data directory");
  else launcher->has_own_ids = can_map(launcher, why, size);
  if (launcher->has_own_ids) why[0] = '\0';
}
