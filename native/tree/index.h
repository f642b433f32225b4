/*
 * What lay in a tree when it was still: one record for each name in the order of paths, between a head that says of which
 * file system and start of the machine it tells and an end with a sum. Whatever does not fit together reads as no index.
 * Written and read by this program alone, in a directory where nobody else writes; yet a crash may leave half of one.
 */
#ifndef SQUASH_TREE_INDEX_H
#define SQUASH_TREE_INDEX_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* A million names with paths of 90 bytes. Of a tree with more there is none. */
enum { TREE_INDEX_BYTES_MAX = 128 * 1024 * 1024 };

struct tree_record {
  uint64_t inode;
  uint64_t size;
  int64_t changed_s;
  uint32_t changed_ns;
  uint32_t mode;
  bool is_deletion;
  bool is_opaque;
  char path[PATH_MAX];
};

struct tree_index {
  FILE *file;
  uint64_t count;
  uint64_t sum;
  uint64_t bytes;
  /* When the tree was looked at first: what changed shortly before could change again and look the same. */
  struct timespec began;
};

/* `fd` is the index's from here on. False, and nothing to close, where it can't be. */
bool tree_index_create(struct tree_index *index, int fd, dev_t device);
bool tree_index_add(struct tree_index *index, const struct tree_record *record);
/* Closes it; whether all of it was written. */
bool tree_index_finish(struct tree_index *index);

/* False, and nothing to close, where it tells of another file system or start of the machine, or is none. */
bool tree_index_open(struct tree_index *index, int fd, dev_t device);
enum tree_index_step { TREE_INDEX_RECORD, TREE_INDEX_END, TREE_INDEX_DAMAGED };
enum tree_index_step tree_index_next(struct tree_index *index, struct tree_record *record);
void tree_index_close(struct tree_index *index);

#endif
