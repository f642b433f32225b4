/* Files with holes in a tar: see tar_sparse.h. */
#include "tree/tar_sparse.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { NUMBER_BYTES = 22 };

bool tar_sparse_find(int file, const struct stat *status, struct tar_sparse *sparse) {
  off_t size = status->st_size, at = 0;
  uint64_t told = 0;
  sparse->count = 0;
  if (status->st_blocks >= size / 512) return false;
  while (at < size) {
    off_t from = lseek(file, at, SEEK_DATA);
    if (from < 0 && errno != ENXIO) return false;
    if (from < 0 || from >= size) break;
    bool is_last = sparse->count == TAR_SPARSE_PIECES_MAX - 1;
    off_t to = is_last ? size : lseek(file, from, SEEK_HOLE);
    if (to <= from) return false;
    at = to < size ? to : size;
    sparse->pieces[sparse->count].at = (uint64_t)from;
    sparse->pieces[sparse->count].length = (uint64_t)(at - from);
    told += sparse->pieces[sparse->count++].length;
  }
  if (at < size) {
    sparse->pieces[sparse->count].at = (uint64_t)size;
    sparse->pieces[sparse->count++].length = 0;
  }
  return told < (uint64_t)size;
}

static int print_number(char text[NUMBER_BYTES], uint64_t number) {
  return snprintf(text, NUMBER_BYTES, "%llu\n", (unsigned long long)number);
}

/* The list's bytes, and what the pieces have together. */
static uint64_t measure(const struct tar_sparse *sparse, uint64_t *pieces) {
  char text[NUMBER_BYTES];
  uint64_t list = (uint64_t)print_number(text, sparse->count);
  *pieces = 0;
  for (unsigned i = 0; i < sparse->count; i++) {
    list += (uint64_t)(print_number(text, sparse->pieces[i].at) + print_number(text, sparse->pieces[i].length));
    *pieces += sparse->pieces[i].length;
  }
  return list;
}

int tar_sparse_head(const struct tar_sparse *sparse, struct tar_head *head, struct tar_pax *pax) {
  uint64_t pieces, list = measure(sparse, &pieces);
  if (tar_add_number(pax, "GNU.sparse.major", 1) != 0 || tar_add_number(pax, "GNU.sparse.minor", 0) != 0) return -1;
  if (tar_add_text(pax, "GNU.sparse.name", head->path) != 0 || tar_add_number(pax, "GNU.sparse.realsize", head->size) != 0) return -1;
  head->path = "GNUSparseFile.0";
  head->size = list + tar_rest_of_block(list) + pieces;
  return 0;
}

static int put_number(struct tar_out *out, uint64_t number) {
  char text[NUMBER_BYTES];
  int length = print_number(text, number);
  return tar_put_bytes(out, text, (size_t)length);
}

static int put_piece(struct tar_out *out, int file, uint64_t at, uint64_t length) {
  static uint8_t bytes[TAR_OUT_BYTES];
  while (length > 0) {
    ssize_t got = pread(file, bytes, length < sizeof bytes ? (size_t)length : sizeof bytes, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) return tar_put_zeros(out, length);
    if (tar_put_bytes(out, bytes, (size_t)got) != 0) return -1;
    at += (uint64_t)got;
    length -= (uint64_t)got;
  }
  return 0;
}

int tar_sparse_put(struct tar_out *out, int file, const struct tar_sparse *sparse) {
  uint64_t pieces, list = measure(sparse, &pieces);
  if (put_number(out, sparse->count) != 0) return -1;
  for (unsigned i = 0; i < sparse->count; i++) {
    if (put_number(out, sparse->pieces[i].at) != 0 || put_number(out, sparse->pieces[i].length) != 0) return -1;
  }
  if (tar_put_zeros(out, tar_rest_of_block(list)) != 0) return -1;
  for (unsigned i = 0; i < sparse->count; i++) {
    if (put_piece(out, file, sparse->pieces[i].at, sparse->pieces[i].length) != 0) return -1;
  }
  return tar_put_zeros(out, tar_rest_of_block(pieces));
}
