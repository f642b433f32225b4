/* Any bytes as a tar's headers and extensions: what comes out is terminated, and stays below where it is unpacked. */
#include <stdlib.h>
#include <string.h>

#include "init/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(char *path) {
  if (strnlen(path, GUEST_PATH_BYTES_MAX) == GUEST_PATH_BYTES_MAX) abort();
  if (!tar_path_clean(path)) return;
  if (path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 || strstr(path, "/../") != NULL) abort();
  size_t length = strlen(path);
  if (length >= 3 && strcmp(path + length - 3, "/..") == 0) abort();
}

/* Fuzzers do not guess sums. */
static void mend_sum(uint8_t *block) {
  unsigned sum = 0;
  memset(block + 148, ' ', 8);
  for (int i = 0; i < TAR_BLOCK_BYTES; i++) sum += block[i];
  for (int i = 5; i >= 0; i--, sum >>= 3) block[148 + i] = (uint8_t)('0' + (sum & 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct tar_entry entry;
  static struct tar_extension extension;
  static uint8_t packed[TAR_PACKED_BYTES_MAX];
  static const char types[] = {TAR_PAX, TAR_LONG_NAME, TAR_LONG_TARGET, TAR_PAX_GLOBAL};
  uint8_t block[TAR_BLOCK_BYTES] = {0};
  memcpy(block, data, size < sizeof block ? size : sizeof block);
  mend_sum(block);
  memset(&extension, 0, sizeof extension);
  memset(&entry, 0, sizeof entry);
  if (size > sizeof block) {
    char *content = malloc(size - sizeof block);
    memcpy(content, data + sizeof block, size - sizeof block);
    (void)tar_extension_parse(&extension, types[data[0] % 4], content, size - sizeof block);
    free(content);
  }
  if (tar_header_parse(block, &entry) != TAR_FINE) return 0;
  tar_extend(&entry, &extension);
  if (entry.size > INTEGER_MAX || entry.uid > INTEGER_MAX) abort();
  if (tar_pack(packed, &entry) > sizeof packed) abort();
  check_path(entry.path);
  check_path(entry.target);
  return 0;
}
