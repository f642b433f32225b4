/*
 * A tree as a tar: names in order, hard links as such, owners as the sandbox has them, times to the nanosecond, extended
 * attributes of users and file capabilities. Deleted names of an overlay's upper are character devices 0:0, as they lie
 * there, and so are its marks. Sockets are left out. The same tree gives the same bytes.
 *
 * The tree is a sandbox's, which may write it meanwhile: what is gone is left out, a file that shrinks is filled up with
 * zeros and one that grows is cut, so that the tar stays one; `changed` counts these.
 */
#ifndef SQUASH_TREE_TAR_H
#define SQUASH_TREE_TAR_H
#include <stdbool.h>
#include <stdint.h>

#include "common/fault.h"
#include "tree/tar_write.h"
#include "tree/change.h"

/* As many ids as a sandbox has. */
enum { TREE_TAR_IDS = 65536 };

struct tree_tar {
  int root;
  unsigned id_first; /* the id of this namespace that is 0 in the tar; those it has none for become 65534 */
  struct tar_out *out;
  /* Only what this tells, with the directories on the way to it: see change.h. Its root is left out. NULL: all. */
  struct tree_judge *judge;
  bool tells_holes; /* tar_sparse.h: of a tree that stands still, for a reader that knows it */
  uint64_t lengths_max; /* of all files together, holes included: then EFBIG. 0: none */
  uint64_t changed;
  bool has_odd_attributes; /* whose names only GNU tar reads back */
};

int tree_tar_write(struct tree_tar *tar, struct fault *fault);

#endif
