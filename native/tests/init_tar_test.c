/* The tar format: what is packed is read again, and what is damaged or leads elsewhere is refused. */
#include <stdio.h>
#include <string.h>

#include "init/tar.h"
#include "tests/check.h"

static struct tar_entry entry, read_back;
static uint8_t packed[TAR_PACKED_BYTES_MAX];

/* Reads what tar_pack wrote, its pax header as well. */
static void unpack(size_t bytes) {
  static struct tar_extension extension;
  memset(&extension, 0, sizeof extension);
  CHECK(bytes % TAR_BLOCK_BYTES == 0 && bytes <= sizeof packed);
  CHECK(tar_header_parse(packed, &read_back) == TAR_FINE);
  if (read_back.type == TAR_PAX) {
    size_t size = (size_t)read_back.size;
    CHECK(bytes == 2 * TAR_BLOCK_BYTES + size + tar_padding(size));
    CHECK(tar_extension_parse(&extension, TAR_PAX, (const char *)packed + TAR_BLOCK_BYTES, size) == TAR_FINE);
    CHECK(tar_header_parse(packed + bytes - TAR_BLOCK_BYTES, &read_back) == TAR_FINE);
  }
  tar_extend(&read_back, &extension);
}

static void check_round_trip(const char *path, const char *target, uint64_t size) {
  entry = (struct tar_entry){.type = TAR_SYMLINK, .mode = 04755, .uid = 1000, .gid = 2097152, .size = size, .mtime = 1234567890};
  (void)snprintf(entry.path, sizeof entry.path, "%s", path);
  (void)snprintf(entry.target, sizeof entry.target, "%s", target);
  unpack(tar_pack(packed, &entry));
  CHECK(strcmp(read_back.path, path) == 0 && strcmp(read_back.target, target) == 0 && read_back.size == size);
  CHECK(read_back.type == TAR_SYMLINK && read_back.mode == 04755 && read_back.uid == 1000 && read_back.gid == 2097152);
  CHECK(read_back.mtime == 1234567890);
}

static void check_round_trips(void) {
  static char longest[GUEST_PATH_BYTES_MAX];
  memset(longest, 'x', sizeof longest - 1);
  check_round_trip("a", "", 0);
  check_round_trip("a\nb = c", "../\xff", UINT64_C(8589934591));
  check_round_trip("a", "b", UINT64_C(8589934592));
  check_round_trip(longest, longest, INTEGER_MAX);
  /* Where the length of a record grows by its own digit. */
  for (size_t length = 80; length < 120; length++) check_round_trip(longest + sizeof longest - 1 - length, "", 1);
}

static enum tar_fault pax(const char *records) {
  static struct tar_extension extension;
  memset(&extension, 0, sizeof extension);
  return tar_extension_parse(&extension, TAR_PAX, records, strlen(records));
}

static void check_times(void) {
  static struct tar_extension extension;
  static const char *const records[] = {"11 mtime=1\n", "15 mtime=1.025\n", "28 mtime=1.0250000009999999\n"};
  for (size_t i = 0; i < 3; i++) {
    memset(&extension, 0, sizeof extension);
    CHECK(tar_extension_parse(&extension, TAR_PAX, records[i], strlen(records[i])) == TAR_FINE);
    tar_extend(&entry, &extension);
    CHECK(entry.mtime == 1 && entry.mtime_ns == (i == 0 ? 0 : 25000000));
  }
}

static void check_refused(void) {
  CHECK(pax("") == TAR_FINE && pax("9 path=a\n") == TAR_FINE && pax("11 size=12\n11 size=13\n") == TAR_FINE);
  CHECK(pax("20 mtime=1.123456789\n") == TAR_DAMAGED && pax("21 mtime=1.1234567890\n") == TAR_DAMAGED);
  CHECK(pax("19 mtime=-1.1234567\n") == TAR_DAMAGED && pax("12 mtime=-1\n") == TAR_FINE);
  CHECK(pax("9 path=a") == TAR_DAMAGED && pax("8 path=a\n") == TAR_DAMAGED && pax("99 path=a\n") == TAR_DAMAGED);
  CHECK(pax("path=a\n") == TAR_DAMAGED && pax("0 =\n") == TAR_DAMAGED && pax("4 a\n") == TAR_DAMAGED);
  CHECK(pax("99999999999999999999999 path=a\n") == TAR_DAMAGED && pax("11 size=-1\n") == TAR_DAMAGED);
  CHECK(pax("27 size=99999999999999999\n") == TAR_DAMAGED && pax("22 GNU.sparse.major=1\n") == TAR_UNSUPPORTED);
  entry = (struct tar_entry){.type = TAR_FILE, .path = "a"};
  (void)tar_pack(packed, &entry);
  packed[0] = 'b';
  CHECK(tar_header_parse(packed, &read_back) == TAR_DAMAGED);
  memset(packed, 0, sizeof packed);
  CHECK(tar_header_parse(packed, &read_back) == TAR_ZERO_BLOCK);
}

static const char *cleaned(const char *path) {
  static char text[GUEST_PATH_BYTES_MAX];
  (void)snprintf(text, sizeof text, "%s", path);
  return tar_path_clean(text) ? text : "refused";
}

static void check_paths(void) {
  CHECK(strcmp(cleaned("a/b"), "a/b") == 0 && strcmp(cleaned("./a//./b/"), "a/b") == 0 && strcmp(cleaned("./"), "") == 0);
  CHECK(strcmp(cleaned("..a/b.."), "..a/b..") == 0 && strcmp(cleaned(""), "") == 0);
  CHECK(strcmp(cleaned("/a"), "refused") == 0 && strcmp(cleaned(".."), "refused") == 0);
  CHECK(strcmp(cleaned("a/../b"), "refused") == 0 && strcmp(cleaned("a/.."), "refused") == 0);
}

int main(void) {
  check_round_trips();
  check_times();
  check_refused();
  check_paths();
  return check_summary();
}
