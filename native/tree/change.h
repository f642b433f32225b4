/*
 * What an upper has other than when an index of it was written: one name after the other, in the order of paths.
 *
 * What is told lies, as a layer, on a layer that has what the index tells, and both together show what the upper shows.
 * So a name that is gone has to be told, as a deletion; and a directory that hides what lies below it is told with all
 * that is in it, or not as one that hides: it would hide what the layer below has of it. Where the upper has come to what can't be
 * said so, it does not fit, and nothing less than all of it will do.
 *
 * A file that is the same has the same inode, and the same time of its last change, to the nanosecond: whoever writes can't set
 * that one. The kernel's clock for it ticks some hundred times a second, so what changed shortly before the index
 * began counts as changed. What programs have mapped has to be written back first, or a write into it changes no time.
 */
#ifndef SQUASH_TREE_CHANGE_H
#define SQUASH_TREE_CHANGE_H
#include <stdbool.h>
#include <stdint.h>

#include "tree/tar_links.h"
#include "tree/index.h"
#include "tree/order.h"

enum tree_verdict {
  TREE_SAME,
  TREE_DIFFERS,
  TREE_ALL, /* a directory of which everything is told, or what lies in one */
};

struct tree_judge {
  struct tree_index known; /* opened; its `file` is NULL where there is none: then all is new */
  struct tar_links *links; /* files of which some name differs: then all of their names do */
  /* A name that is there no more. Returns 0, or -1 with errno. */
  int (*gone)(void *context, const char *path);
  void *context;
  bool is_unfit;
  /* Its own */
  bool has_record;
  bool is_begun;
  struct tree_record record;
  char all[PATH_MAX];
  char skipped[PATH_MAX];
};

/* In order; `is_opaque` is set of directories. Returns a verdict, or -1 with errno. */
int tree_judge(struct tree_judge *judge, const struct tree_place *place, bool *is_opaque);
/* Behind the last name. */
int tree_judge_rest(struct tree_judge *judge);

struct tree_comparison {
  int root;
  unsigned id_first; /* as in tar.h */
  int known;         /* an index, or -1; taken over */
  int written;       /* where to write the new one, or -1; taken over */
  /* Results */
  bool fits;         /* on `known`, and is worth it: less than half of all bytes differ */
  bool is_written;
  struct stat status; /* of the root */
  struct tar_links links;
};

/* Returns 0, or -1 with errno. `links` is to be freed either way. */
int tree_compare(struct tree_comparison *comparison);

#endif
