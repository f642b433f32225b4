/*
 * The tar format, without any I/O: ustar with pax headers where those are too small, as every tar since 2001 reads. Read as well:
 * GNU's long names and numbers in base 256. What comes in is hostile: every field is checked here, and paths come out
 * relative, without "." and "..", or not at all.
 */
#ifndef SQUASH_INIT_TAR_H
#define SQUASH_INIT_TAR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frames.gen.h"
#include "common/tar_header.h"

enum {
  /* A pax header with both names and every number, its own header, and the entry's. */
  TAR_PACKED_BYTES_MAX = 2 * TAR_BLOCK_BYTES + 2 * GUEST_PATH_BYTES_MAX + TAR_BLOCK_BYTES,
  /* The largest pax header or long name that is read. */
  TAR_EXTENSION_BYTES_MAX = 65536,
};

enum tar_type {
  TAR_FILE = '0',
  TAR_HARD_LINK = '1',
  TAR_SYMLINK = '2',
  TAR_CHARACTER_DEVICE = '3',
  TAR_BLOCK_DEVICE = '4',
  TAR_DIRECTORY = '5',
  TAR_FIFO = '6',
  /* About the next entry */
  TAR_PAX = 'x',
  TAR_PAX_GLOBAL = 'g',
  TAR_LONG_NAME = 'L',
  TAR_LONG_TARGET = 'K',
};

struct tar_entry {
  char type;
  uint64_t mode;
  uint64_t uid;
  uint64_t gid;
  uint64_t size; /* of what follows the header */
  int64_t mtime;
  uint32_t mtime_ns; /* behind the second; read, never written */
  char path[GUEST_PATH_BYTES_MAX];
  char target[GUEST_PATH_BYTES_MAX];
};

/* Writes the headers of an entry; `bytes` has TAR_PACKED_BYTES_MAX. Returns how many were written, a multiple of a block. */
size_t tar_pack(uint8_t *bytes, const struct tar_entry *entry);
/* To the next block's beginning. */
static inline size_t tar_padding(uint64_t size) {
  return (size_t)(-size % TAR_BLOCK_BYTES);
}

/* What a pax header or a long name says of the entry behind it. */
struct tar_extension {
  bool has_path, has_target, has_size, has_uid, has_gid, has_mtime;
  struct tar_entry values;
};

enum tar_fault { TAR_FINE, TAR_ZERO_BLOCK, TAR_DAMAGED, TAR_UNSUPPORTED };

enum tar_fault tar_header_parse(const uint8_t block[TAR_BLOCK_BYTES], struct tar_entry *entry);
/* Takes an extension's content; `type` is its entry's. */
enum tar_fault tar_extension_parse(struct tar_extension *extension, char type, const char *bytes, size_t length);
/* Puts what was said of the entry into it. */
void tar_extend(struct tar_entry *entry, const struct tar_extension *extension);
/* Makes `path` relative without "." and empty parts, in place; "" is the root. False: absolute, or it leads upwards. */
bool tar_path_clean(char *path);

#endif
