/* Disks on their way: see disk.h. */
#include "vmm/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "vmm/connection.h"

enum { PATH_BYTES_MAX = 200, NUMBER_BYTES = 8, BUFFER_BYTES = 65536, PIECE_BYTES_MAX = 1 << 30 };

static void put_number(uint8_t *bytes, uint64_t number) {
  for (int i = 0; i < NUMBER_BYTES; i++) bytes[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t number_at(const uint8_t *bytes) {
  uint64_t number = 0;
  for (int i = 0; i < NUMBER_BYTES; i++) number |= (uint64_t)bytes[i] << 8 * i;
  return number;
}

/* --- out -------------------------------------------------------------------------------------------------- */

static int send_numbers(int to, uint64_t offset, uint64_t length) {
  uint8_t head[2 * NUMBER_BYTES];
  put_number(head, offset);
  put_number(head + NUMBER_BYTES, length);
  return write_whole(to, head, sizeof head);
}

static int send_bytes(int disk, int to, off_t at, off_t end) {
  while (at < end) {
    ssize_t put = sendfile(to, disk, &at, end - at > PIECE_BYTES_MAX ? PIECE_BYTES_MAX : (size_t)(end - at));
    if (put <= 0 && !(put < 0 && errno == EINTR)) return -1;
  }
  return 0;
}

static int send_disk(int disk, int to) {
  struct stat status;
  uint8_t size[NUMBER_BYTES];
  if (fstat(disk, &status) != 0) return -1;
  put_number(size, (uint64_t)status.st_size);
  if (write_whole(to, size, sizeof size) != 0) return -1;
  for (off_t at = 0, end;; at = end) {
    at = lseek(disk, at, SEEK_DATA);
    if (at < 0 && errno == ENXIO) break;
    end = at < 0 ? -1 : lseek(disk, at, SEEK_HOLE);
    if (end <= at) return -1;
    if (send_numbers(to, (uint64_t)at, (uint64_t)(end - at)) != 0 || send_bytes(disk, to, at, end) != 0) return -1;
  }
  return send_numbers(to, (uint64_t)status.st_size, 0);
}

static _Noreturn void run_child(int disk, int to) {
  if (dup2(disk, 0) < 0 || dup2(to, 1) < 0) _exit(1);
  close_from(3);
  _exit(set_blocking(1, true) == 0 && send_disk(0, 1) == 0 ? 0 : 1);
}

static const char *parse(uint8_t *payload, size_t length, char path[PATH_BYTES_MAX + 1]) {
  struct field_reader reader;
  struct field field;
  path[0] = '\0';
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    if (field.tag != FIELD_PATH || path[0] != '\0') return "a field has no business in this request, or is repeated";
    if (field.length > PATH_BYTES_MAX || memchr(field.bytes, 0, field.length) != NULL) return "the path holds a NUL or is too long";
    memcpy(path, field.bytes, field.length);
    path[field.length] = '\0';
  }
  if (reader.fault != FRAME_FINE) return "the payload is no list of fields";
  return path[0] == '/' ? NULL : "the path is not absolute";
}

static void request(struct connection *connection, uint8_t *payload, size_t length, bool is_taken) {
  char path[PATH_BYTES_MAX + 1];
  const char *wrong = parse(payload, length, path);
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  cleanup_fd disk = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (disk < 0 || (is_taken && unlink(path) != 0)) {
    connection_refuse(connection, "vmm_failed", errno, "the disk");
    return;
  }
  if (!connection_begin_raw(connection)) return;
  pid_t pid = fork();
  if (pid == 0) run_child(disk, connection->watch.fd);
  /* The stream is the child's now; where there is none its end without a last record says so. */
  connection_close(connection);
}

void disk_request(struct connection *connection, uint8_t *payload, size_t length) { request(connection, payload, length, false); }

void disk_request_taken(struct connection *connection, uint8_t *payload, size_t length) { request(connection, payload, length, true); }

/* --- in --------------------------------------------------------------------------------------------------- */

static int copy_bytes(int from, int to, uint64_t at, uint64_t length) {
  static uint8_t buffer[BUFFER_BYTES];
  while (length > 0) {
    size_t piece = length < sizeof buffer ? (size_t)length : sizeof buffer;
    if (read_whole(from, buffer, piece) != 1) return EPIPE;
    ssize_t put = pwrite(to, buffer, piece, (off_t)at);
    if (put != (ssize_t)piece) return put < 0 ? errno : ENOSPC;
    at += piece;
    length -= piece;
  }
  return 0;
}

int disk_unpack(const char *from, const char *to) {
  cleanup_fd stream = open(from, O_RDONLY | O_CLOEXEC);
  cleanup_fd disk = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return stream < 0 || disk < 0 ? errno : disk_fill(stream, disk);
}

int disk_behind(const char *from, const char *bytes, const char *to) {
  char *end;
  errno = 0;
  off_t at = (off_t)strtoll(bytes, &end, 10);
  if (errno != 0 || *end != '\0' || at < 0) return EINVAL;
  cleanup_fd source = open(from, O_RDONLY | O_CLOEXEC);
  if (source < 0) return errno;
  cleanup_fd made = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (made < 0) return errno;
  for (;;) {
    ssize_t put = sendfile(made, source, &at, PIECE_BYTES_MAX);
    if (put == 0) return 0;
    if (put < 0 && errno != EINTR) return errno;
  }
}

int disk_fill(int stream, int disk) {
  uint8_t head[2 * NUMBER_BYTES];
  if (read_whole(stream, head, NUMBER_BYTES) != 1) return EPIPE;
  uint64_t size = number_at(head);
  if (size > INT64_MAX || ftruncate(disk, (off_t)size) != 0) return size > INT64_MAX ? EFBIG : errno;
  for (uint64_t at = 0, length;; at += length) {
    if (read_whole(stream, head, sizeof head) != 1) return EPIPE;
    uint64_t offset = number_at(head);
    length = number_at(head + NUMBER_BYTES);
    if (offset < at || offset > size || length > size - offset) return EINVAL;
    if (length == 0) return 0;
    at = offset;
    int number = copy_bytes(stream, disk, at, length);
    if (number != 0) return number;
  }
}
