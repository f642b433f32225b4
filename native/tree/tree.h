/*
 * Walking, comparing and removing trees that a sandbox has made: any depth, any names, and it may be changing them meanwhile.
 *
 * No recursion, a bounded number of descriptors, no symbolic link followed, and every name is used relative to an
 * open directory, so that swapping a directory for a link leads nowhere.
 */
#ifndef SQUASH_TREE_TREE_H
#define SQUASH_TREE_TREE_H
#include <stdbool.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/fault.h"

/* On a directory, `y`: the layers below have nothing to show in it. */
#define OVERLAY_OPAQUE "user.overlay.opaque"

struct tree_usage {
  uint64_t bytes;  /* allocated, as du counts: holes cost nothing, a hard link counts once */
  uint64_t lengths; /* of regular files, holes included */
  uint64_t inodes;
  uint64_t missed; /* of a measured tree: names that were listed and gone when they were looked at */
};

/* As layerBytesMax in contract/src/limits.ts: what is longer, holes included, could not be unpacked again. */
#define TREE_LENGTHS_MAX (UINT64_C(64) << 30)

/* Stops early when either maximum (0: none) is passed: the answer is then above it, but not the whole. */
int tree_measure(int directory, const struct tree_usage *max, struct tree_usage *usage, struct fault *fault);

/* Removes what is at the checked relative path; nothing there is fine. At once out of sight, then piece by piece. */
int tree_remove(int data_fd, const char *path, struct fault *fault);

/* What follows is for layers: trees that nobody changes meanwhile. */

struct tree_visitor {
  /* `path` is relative to the walked tree, `.` for itself. Returns 0, or -1 with errno. */
  int (*visit)(void *context, int directory, const char *path);
  void *context;
};

/* Each directory before those in it. */
int tree_each_directory(int root, const struct tree_visitor *visitor, struct fault *fault);

bool tree_is_opaque(int directory);
int tree_set_opaque(int directory);
/* The marks of other tools become the kernel's. */
int tree_translate_marks(int root, struct fault *fault);

struct tree_stack {
  const char *const *layers; /* below the data directory, topmost first */
  size_t count;
  int into;     /* an empty directory on their file system */
  int replaced; /* another one beside it, for what is in the way */
};

/* The mode of a deletion that says no more than that the name is gone from the layer right below, which had it. */
enum { TREE_GONE_MODE = 0400 };

/* All layers down to the modules: such deletions are left out. */
int tree_merge(int data_fd, const struct tree_stack *stack, struct fault *fault);

/* What two stacks of layers show differently. The topmost layer of one may be an upper that is being written. */

/* One bit each: 32 modules, 24 snapshots and an upper are 57 (contract/src/limits.ts), of which two stacks share most. */
enum { TREE_DIFF_LAYERS_MAX = 64 };

enum tree_change { TREE_ADDED, TREE_CHANGED, TREE_REMOVED };

struct tree_difference {
  const char *path; /* relative to the root */
  enum tree_change change;
  const struct stat *status; /* as it is now; of what was removed as it was */
};

/* Topmost first: places in `roots`. */
struct tree_side {
  unsigned char layers[TREE_DIFF_LAYERS_MAX];
  size_t count;
};

struct tree_diff {
  int roots[TREE_DIFF_LAYERS_MAX]; /* open directories, each once */
  size_t count;
  uint64_t foreign; /* one bit for each: it has fuse-overlayfs's marks */
  struct tree_side from;
  struct tree_side to;
  bool skips_long; /* names whose path does not fit are left out, with what is in them; else they end the walk */
  const char *after; /* goes on behind this path; empty from the beginning */
  /* Returns 0, or -1 with errno, which ends the walk. */
  int (*report)(void *context, const struct tree_difference *found);
  /* Asked behind each name: returning false ends the walk with what was told. */
  bool (*goes_on)(void *context);
  void *context;
};

/* A directory comes before what is in it, and that before the directory's next sibling. */
int tree_compare_paths(const char *one, const char *other);

/* `last` becomes the path to go on behind, or empty where all is told. */
int tree_diff(const struct tree_diff *diff, char last[PATH_MAX], struct fault *fault);

/* Marks as fuse-overlayfs leaves them in an upper, and the kernel's. */
bool tree_hides_below(int directory, bool is_foreign);
bool tree_is_deleted(int directory, const char *name);
/* The name that an entry is about; NULL for a mark that is about none. */
const char *tree_meant_name(const char *entry);

#endif
