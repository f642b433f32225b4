/*
 * Walking a tree in the order of its paths: each directory's names by their bytes, a directory before what is in it, and
 * that before the directory's next sibling. The same tree is told in the same order, whatever its file system lists.
 *
 * Made for trees that a sandbox writes: no recursion, one open directory, no link followed, memory for the names of the
 * directories on the way and no more. What is gone when it is looked at is left out and counted.
 */
#ifndef SQUASH_TREE_ORDER_H
#define SQUASH_TREE_ORDER_H
#include <stdint.h>
#include <sys/stat.h>

struct tree_place {
  int directory; /* open, and `name` is in it; the walked tree's own is the root, with `.` */
  const char *name;
  const char *path; /* relative to the root, without `.` at its beginning; "" is the root */
  struct stat status;
};

struct tree_order {
  int root;
  /* Returns 0, or -1 with errno, which ends the walk. */
  int (*visit)(void *context, const struct tree_place *place);
  void *context;
  uint64_t missed;
};

/* Returns 0, or -1 with errno: ENAMETOOLONG for a path of PATH_MAX bytes, ENOMEM for names beyond any reason. */
int tree_in_order(struct tree_order *order);

#endif
