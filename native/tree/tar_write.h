/*
 * Writing a tar: ustar with pax headers where those are too small, which every tar since 2001 reads, and extended
 * attributes as GNU tar and sqfstar read them. Names and values may have any bytes but NUL in names.
 */
#ifndef SQUASH_TREE_TAR_WRITE_H
#define SQUASH_TREE_TAR_WRITE_H
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/tar_header.h"

enum {
  /* What is written at once: as much as a data frame carries. */
  TAR_OUT_BYTES = 65536,
  /* Of one file. Most file systems allow 64 KiB for all of them together. */
  TAR_ATTRIBUTES_BYTES_MAX = 16 * 1024 * 1024,
};

struct tar_out {
  /* Returns 0, or -1 with errno. */
  int (*write)(void *context, const uint8_t *bytes, size_t length);
  void *context;
  size_t used;
  uint8_t bytes[TAR_OUT_BYTES];
};

/* Records of a pax header. Begins as zeros. */
struct tar_pax {
  uint8_t *bytes;
  size_t used;
  size_t room;
};

struct tar_head {
  char type; /* as in the format: '0' a file, '1' a hard link, '2' a symbolic link, '3' '4' devices, '5' a directory, '6' a fifo */
  const char *path;
  const char *target; /* of links, else "" */
  unsigned mode;
  uint64_t uid;
  uint64_t gid;
  uint64_t size; /* of what follows */
  struct timespec mtime;
  unsigned major;
  unsigned minor;
};

/* All return 0, or -1 with errno: ENOMEM, or what the writing gave. */
int tar_add_text(struct tar_pax *pax, const char *key, const char *text);
int tar_add_number(struct tar_pax *pax, const char *key, uint64_t number);
int tar_add_attribute(struct tar_pax *pax, const char *name, const void *value, size_t length);
/* Adds to `pax` what the head needs, writes both and empties `pax`. */
int tar_put_head(struct tar_out *out, const struct tar_head *head, struct tar_pax *pax);
int tar_put_bytes(struct tar_out *out, const void *bytes, size_t length);
int tar_put_zeros(struct tar_out *out, uint64_t count);
/* The end of the archive. */
int tar_finish(struct tar_out *out);

static inline uint64_t tar_rest_of_block(uint64_t size) { return -size % TAR_BLOCK_BYTES; }

#endif
