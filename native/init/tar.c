/* The tar format: see tar.h. */
#include "init/tar.h"

#include <stdio.h>
#include <string.h>

enum { MTIME_MAX = 0x7fffffffff /* the year 19391 */ };

static void put_octal(char *field, size_t width, uint64_t value) {
  for (size_t i = width - 1; i-- > 0; value >>= 3) field[i] = (char)('0' + (value & 7));
}

static bool fits_octal(size_t width, uint64_t value) {
  return value >> (3 * (width - 1)) == 0;
}

static uint64_t sum_of(const struct tar_header *header) {
  const uint8_t *bytes = (const uint8_t *)header;
  const size_t from = offsetof(struct tar_header, checksum), to = from + sizeof header->checksum;
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof *header; i++) sum += i >= from && i < to ? ' ' : bytes[i];
  return sum;
}

static void put_header(uint8_t *bytes, const struct tar_entry *entry) {
  struct tar_header header;
  memset(&header, 0, sizeof header);
  /* What does not fit stands in the pax header before. */
  memcpy(header.name, entry->path, strnlen(entry->path, sizeof header.name));
  memcpy(header.target, entry->target, strnlen(entry->target, sizeof header.target));
  put_octal(header.mode, sizeof header.mode, entry->mode & 07777);
  put_octal(header.uid, sizeof header.uid, fits_octal(sizeof header.uid, entry->uid) ? entry->uid : 0);
  put_octal(header.gid, sizeof header.gid, fits_octal(sizeof header.gid, entry->gid) ? entry->gid : 0);
  put_octal(header.size, sizeof header.size, fits_octal(sizeof header.size, entry->size) ? entry->size : 0);
  bool has_mtime = entry->mtime >= 0 && fits_octal(sizeof header.mtime, (uint64_t)entry->mtime);
  put_octal(header.mtime, sizeof header.mtime, has_mtime ? (uint64_t)entry->mtime : 0);
  header.type = entry->type;
  memcpy(header.magic, "ustar", 6);
  memcpy(header.version, "00", 2);
  put_octal(header.checksum, 7, sum_of(&header));
  header.checksum[7] = ' ';
  memcpy(bytes, &header, sizeof header);
}

/* One record "LENGTH KEY=VALUE\n", whose length counts itself. */
static size_t put_record(char *at, const char *key, const char *value) {
  size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
  char digits[24];
  while (rest + (size_t)snprintf(digits, sizeof digits, "%zu", length) != length) length++;
  size_t digits_length = strlen(digits), key_length = strlen(key), value_length = strlen(value);
  memcpy(at, digits, digits_length);
  at[digits_length] = ' ';
  memcpy(at + digits_length + 1, key, key_length);
  at[digits_length + 1 + key_length] = '=';
  memcpy(at + digits_length + 2 + key_length, value, value_length);
  at[length - 1] = '\n';
  return length;
}

static size_t put_number(char *at, const char *key, uint64_t value) {
  char digits[24];
  (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  return put_record(at, key, digits);
}

size_t tar_pack(uint8_t *bytes, const struct tar_entry *entry) {
  const struct tar_header *shape = NULL;
  char *records = (char *)bytes + TAR_BLOCK_BYTES;
  size_t used = 0;
  if (strlen(entry->path) > sizeof shape->name) used += put_record(records + used, "path", entry->path);
  if (strlen(entry->target) > sizeof shape->target) used += put_record(records + used, "linkpath", entry->target);
  if (!fits_octal(sizeof shape->size, entry->size)) used += put_number(records + used, "size", entry->size);
  if (!fits_octal(sizeof shape->uid, entry->uid)) used += put_number(records + used, "uid", entry->uid);
  if (!fits_octal(sizeof shape->gid, entry->gid)) used += put_number(records + used, "gid", entry->gid);
  if (used > 0) {
    static const struct tar_entry pax = {.type = TAR_PAX, .mode = 0644, .path = "pax"};
    struct tar_entry about = pax;
    about.size = used;
    put_header(bytes, &about);
    memset(records + used, 0, tar_padding(used));
    used += TAR_BLOCK_BYTES + tar_padding(used);
  }
  put_header(bytes + used, entry);
  return used + TAR_BLOCK_BYTES;
}

/* Octal digits between blanks, or base 256 where the highest bit says so. */
static bool get_number(const char *field, size_t width, uint64_t *value) {
  const uint8_t *bytes = (const uint8_t *)field;
  uint64_t number = 0;
  if ((bytes[0] & 0x80) != 0) {
    if (bytes[0] != 0x80) return false; /* Negative, or larger than anything. */
    for (size_t i = 1; i < width; i++) {
      if (number > INTEGER_MAX >> 8) return false;
      number = number << 8 | bytes[i];
    }
    *value = number;
    return number <= INTEGER_MAX;
  }
  size_t i = 0;
  while (i < width && bytes[i] == ' ') i++;
  for (; i < width && bytes[i] >= '0' && bytes[i] <= '7'; i++) number = number << 3 | (uint64_t)(bytes[i] - '0');
  *value = number;
  return i == width || bytes[i] == ' ' || bytes[i] == '\0';
}

static bool is_zero(const uint8_t *block) {
  for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
    if (block[i] != 0) return false;
  }
  return true;
}

enum tar_fault tar_header_parse(const uint8_t block[TAR_BLOCK_BYTES], struct tar_entry *entry) {
  struct tar_header header;
  uint64_t sum, mtime;
  if (is_zero(block)) return TAR_ZERO_BLOCK;
  memcpy(&header, block, sizeof header);
  if (!get_number(header.checksum, sizeof header.checksum, &sum) || sum != sum_of(&header)) return TAR_DAMAGED;
  if (!get_number(header.mode, sizeof header.mode, &entry->mode) || !get_number(header.uid, sizeof header.uid, &entry->uid) ||
      !get_number(header.gid, sizeof header.gid, &entry->gid) || !get_number(header.size, sizeof header.size, &entry->size)) {
    return TAR_DAMAGED;
  }
  /* Some write times before 1970 in base 256. */
  if (!get_number(header.mtime, sizeof header.mtime, &mtime) || mtime > MTIME_MAX) mtime = 0;
  entry->mtime = (int64_t)mtime;
  entry->mtime_ns = 0;
  entry->type = header.type == '\0' || header.type == '7' ? (char)TAR_FILE : header.type;
  size_t used = 0;
  if (memcmp(header.magic, "ustar", 6) == 0 && header.prefix[0] != '\0') {
    used = strnlen(header.prefix, sizeof header.prefix);
    memcpy(entry->path, header.prefix, used);
    entry->path[used++] = '/';
  }
  size_t length = strnlen(header.name, sizeof header.name);
  memcpy(entry->path + used, header.name, length);
  entry->path[used + length] = '\0';
  length = strnlen(header.target, sizeof header.target);
  memcpy(entry->target, header.target, length);
  entry->target[length] = '\0';
  /* From before there was a type for them. */
  if (entry->type == TAR_FILE && used + strlen(entry->path + used) > 0 && entry->path[strlen(entry->path) - 1] == '/') {
    entry->type = TAR_DIRECTORY;
  }
  return TAR_FINE;
}

static bool take_text(char into[GUEST_PATH_BYTES_MAX], const char *value, size_t length) {
  if (length >= GUEST_PATH_BYTES_MAX || memchr(value, '\0', length) != NULL) return false;
  memcpy(into, value, length);
  into[length] = '\0';
  return true;
}

/* Digits up to the end or, for times, a fraction. */
static bool take_number(uint64_t *into, const char *value, size_t length) {
  uint64_t number = 0;
  size_t i = 0;
  for (; i < length && value[i] >= '0' && value[i] <= '9'; i++) {
    number = number * 10 + (uint64_t)(value[i] - '0');
    if (number > INTEGER_MAX) return false;
  }
  *into = number;
  return i > 0 && (i == length || value[i] == '.');
}

/* What follows the point of a time. */
static uint32_t fraction_ns(const char *value, size_t length) {
  const char *point = memchr(value, '.', length);
  uint32_t ns = 0, scale = 100000000;
  if (point == NULL) return 0;
  for (const char *at = point + 1; at < value + length && *at >= '0' && *at <= '9'; at++, scale /= 10) ns += (uint32_t)(*at - '0') * scale;
  return ns;
}

static bool is_key(const char *key, size_t length, const char *wanted) {
  return strlen(wanted) == length && memcmp(key, wanted, length) == 0;
}

static enum tar_fault take_record(struct tar_extension *extension, const char *key, size_t key_length, const char *value, size_t length) {
  struct tar_entry *values = &extension->values;
  uint64_t mtime = 0;
  bool is_fine = true;
  if (key_length > 11 && memcmp(key, "GNU.sparse.", 11) == 0) return TAR_UNSUPPORTED;
  if (is_key(key, key_length, "path")) is_fine = extension->has_path = take_text(values->path, value, length);
  else if (is_key(key, key_length, "linkpath")) is_fine = extension->has_target = take_text(values->target, value, length);
  else if (is_key(key, key_length, "size")) is_fine = extension->has_size = take_number(&values->size, value, length);
  else if (is_key(key, key_length, "uid")) is_fine = extension->has_uid = take_number(&values->uid, value, length);
  else if (is_key(key, key_length, "gid")) is_fine = extension->has_gid = take_number(&values->gid, value, length);
  /* One before 1970 is left out: its header's stands. */
  else if (is_key(key, key_length, "mtime")) extension->has_mtime = take_number(&mtime, value, length) && mtime <= MTIME_MAX;
  if (extension->has_mtime && mtime > 0) {
    values->mtime = (int64_t)mtime;
    values->mtime_ns = fraction_ns(value, length);
  }
  return is_fine ? TAR_FINE : TAR_DAMAGED;
}

static enum tar_fault take_records(struct tar_extension *extension, const char *bytes, size_t length) {
  for (size_t at = 0; at < length;) {
    size_t record = 0, digits = at;
    for (; digits < length && bytes[digits] >= '0' && bytes[digits] <= '9'; digits++) {
      record = record * 10 + (size_t)(bytes[digits] - '0');
      if (record > length) return TAR_DAMAGED;
    }
    if (digits == at || digits == length || bytes[digits] != ' ' || record > length - at) return TAR_DAMAGED;
    const char *key = bytes + digits + 1, *end = bytes + at + record;
    if (end <= key || end[-1] != '\n') return TAR_DAMAGED;
    const char *equals = memchr(key, '=', (size_t)(end - key));
    if (equals == NULL) return TAR_DAMAGED;
    enum tar_fault fault = take_record(extension, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals) - 2);
    if (fault != TAR_FINE) return fault;
    at += record;
  }
  return TAR_FINE;
}

enum tar_fault tar_extension_parse(struct tar_extension *extension, char type, const char *bytes, size_t length) {
  if (type == TAR_PAX_GLOBAL) return TAR_FINE; /* Comments; what is about all entries is not about names and sizes. */
  if (type == TAR_PAX) return take_records(extension, bytes, length);
  bool is_target = type == TAR_LONG_TARGET;
  length = strnlen(bytes, length); /* GNU's end with a NUL. */
  if (!take_text(is_target ? extension->values.target : extension->values.path, bytes, length)) return TAR_DAMAGED;
  if (is_target) extension->has_target = true;
  else extension->has_path = true;
  return TAR_FINE;
}

void tar_extend(struct tar_entry *entry, const struct tar_extension *extension) {
  const struct tar_entry *values = &extension->values;
  if (extension->has_path) memcpy(entry->path, values->path, sizeof entry->path);
  if (extension->has_target) memcpy(entry->target, values->target, sizeof entry->target);
  if (extension->has_size) entry->size = values->size;
  if (extension->has_uid) entry->uid = values->uid;
  if (extension->has_gid) entry->gid = values->gid;
  if (extension->has_mtime) {
    entry->mtime = values->mtime;
    entry->mtime_ns = values->mtime_ns;
  }
}

bool tar_path_clean(char *path) {
  char *out = path;
  if (path[0] == '/') return false;
  for (const char *at = path; *at != '\0';) {
    size_t length = strcspn(at, "/");
    if (length == 2 && at[0] == '.' && at[1] == '.') return false;
    if (length > 0 && !(length == 1 && at[0] == '.')) {
      if (out != path) *out++ = '/';
      memmove(out, at, length);
      out += length;
      at += length;
    } else {
      at += length;
    }
    at += *at == '/';
  }
  *out = '\0';
  return true;
}
