/*
 * Files with holes in a tar, in GNU's format 1.0, which mksquashfs reads: a list of the pieces that are there, and these alone.
 */
#ifndef SQUASH_TREE_TAR_SPARSE_H
#define SQUASH_TREE_TAR_SPARSE_H
#include <stdbool.h>
#include <sys/stat.h>

#include "tree/tar_write.h"

/* Behind the last of them all is told, holes as zeros. */
enum { TAR_SPARSE_PIECES_MAX = 4096 };

struct tar_sparse {
  unsigned count;
  struct {
    uint64_t at;
    uint64_t length;
  } pieces[TAR_SPARSE_PIECES_MAX + 1]; /* one more for the end of a file that ends in a hole */
};

/* False: it has none, or nobody can say. Nobody writes the file meanwhile. */
bool tar_sparse_find(int file, const struct stat *status, struct tar_sparse *sparse);
/* Makes `head` one of such a file: adds records to `pax`, and changes path and size. Returns 0, or -1 with errno. */
int tar_sparse_head(const struct tar_sparse *sparse, struct tar_head *head, struct tar_pax *pax);
/* What follows that head. Returns 0, or -1 with errno. */
int tar_sparse_put(struct tar_out *out, int file, const struct tar_sparse *sparse);

#endif
