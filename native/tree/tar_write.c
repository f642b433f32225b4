/* Writing a tar: see tar_write.h. */
#include "tree/tar_write.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTAL_MAX(size) ((UINT64_C(1) << (3 * ((size) - 1))) - 1)

static int flush(struct tar_out *out) {
  int result = out->used == 0 ? 0 : out->write(out->context, out->bytes, out->used);
  out->used = 0;
  return result;
}

int tar_put_bytes(struct tar_out *out, const void *bytes, size_t length) {
  const uint8_t *next = bytes;
  while (length > 0) {
    if (out->used == sizeof out->bytes && flush(out) != 0) return -1;
    size_t room = sizeof out->bytes - out->used;
    size_t part = length < room ? length : room;
    memcpy(out->bytes + out->used, next, part);
    out->used += part;
    next += part;
    length -= part;
  }
  return 0;
}

int tar_put_zeros(struct tar_out *out, uint64_t count) {
  static const uint8_t zeros[4096];
  while (count > 0) {
    size_t part = count < sizeof zeros ? (size_t)count : sizeof zeros;
    if (tar_put_bytes(out, zeros, part) != 0) return -1;
    count -= part;
  }
  return 0;
}

int tar_finish(struct tar_out *out) {
  if (tar_put_zeros(out, UINT64_C(2) * TAR_BLOCK_BYTES) != 0) return -1;
  return flush(out);
}

/* ---- pax ---- */

static int append(struct tar_pax *pax, const void *bytes, size_t length) {
  errno = ENOMEM;
  if (length > TAR_ATTRIBUTES_BYTES_MAX || pax->used + length > TAR_ATTRIBUTES_BYTES_MAX) return -1;
  if (pax->used + length > pax->room) {
    size_t room = pax->room == 0 ? 4096 : pax->room;
    while (room < pax->used + length) room *= 2;
    uint8_t *grown = realloc(pax->bytes, room);
    if (grown == NULL) return -1;
    pax->bytes = grown;
    pax->room = room;
  }
  if (length > 0) memcpy(pax->bytes + pax->used, bytes, length);
  pax->used += length;
  return 0;
}

/* `<length> <key>=<value>\n`, where the length counts itself. */
static int add_record(struct tar_pax *pax, const char *key, const void *value, size_t length) {
  char number[24];
  size_t rest = 1 + strlen(key) + 1 + length + 1;
  size_t digits = 1;
  for (;;) {
    size_t got = (size_t)snprintf(number, sizeof number, "%zu", rest + digits);
    if (got == digits) break;
    digits = got;
  }
  if (append(pax, number, digits) != 0 || append(pax, " ", 1) != 0 || append(pax, key, strlen(key)) != 0 ||
      append(pax, "=", 1) != 0 || append(pax, value, length) != 0) {
    return -1;
  }
  return append(pax, "\n", 1);
}

int tar_add_text(struct tar_pax *pax, const char *key, const char *text) {
  return add_record(pax, key, text, strlen(text));
}

int tar_add_number(struct tar_pax *pax, const char *key, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  return tar_add_text(pax, key, text);
}

/* Seconds with nine places behind the point, which sqfstar 4.5 can't do without; before 1970 as well, where the seconds of
   `time` are rounded down. */
static int add_time(struct tar_pax *pax, const char *key, struct timespec time) {
  char text[48];
  long long seconds = (long long)time.tv_sec;
  long nanoseconds = time.tv_nsec;
  bool is_negative = seconds < 0;
  if (is_negative && nanoseconds > 0) {
    seconds++;
    nanoseconds = 1000000000 - nanoseconds;
  }
  snprintf(text, sizeof text, "%s%llu.%09ld", is_negative ? "-" : "",
           (unsigned long long)(is_negative ? -seconds : seconds), nanoseconds);
  return tar_add_text(pax, key, text);
}

int tar_add_attribute(struct tar_pax *pax, const char *name, const void *value, size_t length) {
  char key[32 + 3 * 256] = "SCHILY.xattr.";
  size_t used = strlen(key);
  /* A record's key ends at its first `=`: GNU tar writes it so. */
  for (const char *at = name; *at != '\0' && used + 4 < sizeof key; at++) {
    if (*at == '=' || *at == '%') used += (size_t)snprintf(key + used, sizeof key - used, "%%%02X", (unsigned char)*at);
    else key[used++] = *at;
  }
  key[used] = '\0';
  return add_record(pax, key, value, length);
}

/* ---- heads ---- */

static void put_octal(char *field, size_t size, uint64_t number) {
  snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)number);
}

static int put_block(struct tar_out *out, struct tar_header *header) {
  unsigned sum = 0;
  memcpy(header->magic, "ustar", 6);
  memcpy(header->version, "00", 2);
  memset(header->checksum, ' ', sizeof header->checksum);
  for (size_t i = 0; i < sizeof *header; i++) sum += ((const uint8_t *)header)[i];
  snprintf(header->checksum, sizeof header->checksum, "%06o", sum);
  return tar_put_bytes(out, header, sizeof *header);
}

static int put_pax(struct tar_out *out, const struct tar_pax *pax) {
  struct tar_header header = {.name = "././@PaxHeader", .type = 'x'};
  put_octal(header.mode, sizeof header.mode, 0644);
  put_octal(header.uid, sizeof header.uid, 0);
  put_octal(header.gid, sizeof header.gid, 0);
  put_octal(header.size, sizeof header.size, pax->used);
  put_octal(header.mtime, sizeof header.mtime, 0);
  if (put_block(out, &header) != 0 || tar_put_bytes(out, pax->bytes, pax->used) != 0) return -1;
  return tar_put_zeros(out, tar_rest_of_block(pax->used));
}

/* What does not fit is said by a record, and the field has what fits. */
static int put_number(struct tar_pax *pax, const char *key, char *field, size_t size, uint64_t number) {
  bool fits = number <= OCTAL_MAX(size);
  put_octal(field, size, fits ? number : 0);
  return fits ? 0 : tar_add_number(pax, key, number);
}

static int put_text(struct tar_pax *pax, const char *key, char field[100], const char *text) {
  size_t length = strlen(text);
  memcpy(field, text, length < 100 ? length : 100);
  return length <= 100 ? 0 : tar_add_text(pax, key, text);
}

int tar_put_head(struct tar_out *out, const struct tar_head *head, struct tar_pax *pax) {
  struct tar_header header = {.type = head->type};
  bool has_plain_time = head->mtime.tv_sec >= 0 && (uint64_t)head->mtime.tv_sec <= OCTAL_MAX(12);
  put_octal(header.mode, sizeof header.mode, head->mode & 07777);
  put_octal(header.mtime, sizeof header.mtime, has_plain_time ? (uint64_t)head->mtime.tv_sec : 0);
  put_octal(header.major, sizeof header.major, head->major & OCTAL_MAX(8));
  put_octal(header.minor, sizeof header.minor, head->minor & OCTAL_MAX(8));
  int result = put_text(pax, "path", header.name, head->path);
  if (result == 0) result = put_text(pax, "linkpath", header.target, head->target);
  if (result == 0) result = put_number(pax, "uid", header.uid, sizeof header.uid, head->uid);
  if (result == 0) result = put_number(pax, "gid", header.gid, sizeof header.gid, head->gid);
  if (result == 0) result = put_number(pax, "size", header.size, sizeof header.size, head->size);
  if (result == 0 && (!has_plain_time || head->mtime.tv_nsec > 0)) result = add_time(pax, "mtime", head->mtime);
  if (result == 0 && pax->used > 0) result = put_pax(out, pax);
  pax->used = 0;
  return result == 0 ? put_block(out, &header) : -1;
}
