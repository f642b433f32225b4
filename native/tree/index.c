/* Indexes of trees: see index.h. */
#include "tree/index.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

enum { BOOT_ID_BYTES = 40, END_LENGTH = 0xffff };

struct head {
  char magic[16];
  char boot[BOOT_ID_BYTES];
  uint64_t device;
  int64_t began_s;
  int64_t began_ns;
};

struct packed {
  uint64_t inode;
  uint64_t size;
  int64_t changed_s;
  uint32_t changed_ns;
  uint32_t mode;
  uint16_t length; /* of the path, which follows; END_LENGTH: inode and size are count and sum of all before */
  uint8_t is_deletion;
  uint8_t is_opaque;
  uint32_t zero;
};
_Static_assert(sizeof(struct packed) == 40, "no byte of a record is left unset");

static const char magic[16] = "squash index 1\n";

static void add_to_sum(struct tree_index *index, const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < length; i++) index->sum = (index->sum ^ at[i]) * UINT64_C(1099511628211);
}

static bool put(struct tree_index *index, const void *bytes, size_t length) {
  add_to_sum(index, bytes, length);
  index->bytes += length;
  return index->bytes <= TREE_INDEX_BYTES_MAX && fwrite(bytes, 1, length, index->file) == length;
}

static bool get(struct tree_index *index, void *bytes, size_t length) {
  if (fread(bytes, 1, length, index->file) != length) return false;
  add_to_sum(index, bytes, length);
  return true;
}

static bool describe(struct head *head, dev_t device) {
  *head = (struct head){.device = (uint64_t)device};
  memcpy(head->magic, magic, sizeof magic);
  return text_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", head->boot, sizeof head->boot) > 0;
}

static bool begin(struct tree_index *index, int fd, const char *mode) {
  *index = (struct tree_index){.file = fdopen(fd, mode), .sum = UINT64_C(14695981039346656037)};
  if (index->file == NULL) close(fd);
  return index->file != NULL;
}

bool tree_index_create(struct tree_index *index, int fd, dev_t device) {
  struct head head;
  if (!begin(index, fd, "w")) return false;
  bool is_made = describe(&head, device) && clock_gettime(CLOCK_REALTIME, &index->began) == 0;
  head.began_s = index->began.tv_sec;
  head.began_ns = index->began.tv_nsec;
  if (is_made && put(index, &head, sizeof head)) return true;
  tree_index_close(index);
  return false;
}

bool tree_index_add(struct tree_index *index, const struct tree_record *record) {
  const struct packed packed = {.inode = record->inode,
                                .size = record->size,
                                .changed_s = record->changed_s,
                                .changed_ns = record->changed_ns,
                                .mode = record->mode,
                                .length = (uint16_t)strlen(record->path),
                                .is_deletion = record->is_deletion,
                                .is_opaque = record->is_opaque};
  index->count++;
  return put(index, &packed, sizeof packed) && put(index, record->path, packed.length);
}

bool tree_index_finish(struct tree_index *index) {
  const struct packed end = {.inode = index->count, .size = index->sum, .length = END_LENGTH};
  bool is_whole = put(index, &end, sizeof end);
  if (fclose(index->file) != 0) is_whole = false;
  index->file = NULL;
  return is_whole;
}

bool tree_index_open(struct tree_index *index, int fd, dev_t device) {
  struct head expected;
  struct head head;
  if (!begin(index, fd, "r")) return false;
  if (describe(&expected, device) && get(index, &head, sizeof head)) {
    expected.began_s = head.began_s;
    expected.began_ns = head.began_ns;
    index->began = (struct timespec){.tv_sec = head.began_s, .tv_nsec = head.began_ns};
    if (memcmp(&head, &expected, sizeof head) == 0) return true;
  }
  tree_index_close(index);
  return false;
}

enum tree_index_step tree_index_next(struct tree_index *index, struct tree_record *record) {
  struct packed packed;
  uint64_t sum = index->sum;
  if (!get(index, &packed, sizeof packed)) return TREE_INDEX_DAMAGED;
  if (packed.length == END_LENGTH) {
    bool is_whole = packed.inode == index->count && packed.size == sum && fgetc(index->file) == EOF;
    return is_whole ? TREE_INDEX_END : TREE_INDEX_DAMAGED;
  }
  if (packed.length >= sizeof record->path || !get(index, record->path, packed.length)) return TREE_INDEX_DAMAGED;
  record->path[packed.length] = '\0';
  record->inode = packed.inode;
  record->size = packed.size;
  record->changed_s = packed.changed_s;
  record->changed_ns = packed.changed_ns;
  record->mode = packed.mode;
  record->is_deletion = packed.is_deletion != 0;
  record->is_opaque = packed.is_opaque != 0;
  index->count++;
  return TREE_INDEX_RECORD;
}

void tree_index_close(struct tree_index *index) {
  if (index->file != NULL) fclose(index->file);
  index->file = NULL;
}
