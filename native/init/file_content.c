/*
 * Reading and writing a file's bytes. Only regular files: a FIFO or a device could block or never end, and is
 * better served by a command.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/request.h"

/* O_NONBLOCK so that a FIFO does not hold the open; regular files do not know the flag. */
int file_open(int directory, const char *path, int flags, mode_t mode) {
  cleanup_fd fd = openat(directory, path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
  if (fd < 0) return -1;
  struct stat stat;
  if (fstat(fd, &stat) != 0) return -1;
  if (!S_ISREG(stat.st_mode)) {
    errno = S_ISDIR(stat.st_mode) ? EISDIR : EINVAL;
    return -1;
  }
  return take_fd(&fd);
}

void file_read(int socket) {
  uint64_t offset = 0, left = INTEGER_MAX, describe = 0;
  (void)request_integer(FIELD_OFFSET, 0, INTEGER_MAX, &offset); /* Every integer is in range. */
  (void)request_integer(FIELD_LENGTH, 0, INTEGER_MAX, &left);
  (void)request_integer(FIELD_DESCRIBE, 0, INTEGER_MAX, &describe);
  cleanup_fd fd = file_open(AT_FDCWD, request_path(FIELD_PATH), O_RDONLY, 0);
  struct stat stat;
  if (fd < 0 || fstat(fd, &stat) != 0 || (offset > 0 && lseek(fd, (off_t)offset, SEEK_SET) < 0)) {
    answer_error(socket, errno, "open");
    return;
  }
  if (describe != 0) answer_entry(socket, NULL, &stat, NULL);
  while (left > 0) {
    ssize_t got = read(fd, scratch, left < sizeof scratch ? (size_t)left : sizeof scratch);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      answer_error(socket, errno, "read");
      return;
    }
    if (got == 0) break;
    answer_data(socket, scratch, (size_t)got);
    left -= (uint64_t)got;
  }
  answer_end(socket);
}

int file_put(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, bytes, length);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EFBIG) errno = ENOSPC; /* RLIMIT_FSIZE is the room that the sandbox has. */
    if (put < 0) return -1;
    bytes += put;
    length -= (size_t)put;
  }
  return 0;
}

ssize_t file_receive(int socket) {
  for (;;) {
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_header header;
    if (read_whole(socket, bytes, sizeof bytes) != 1) return -1;
    if (frame_header_parse(bytes, &header) != FRAME_FINE) {
      answer_bad_request(socket, "not a frame");
      return -1;
    }
    if (header.type == FRAME_END && header.length == 0) return 0;
    if (header.type != FRAME_DATA) {
      answer_bad_request(socket, "neither data nor end");
      return -1;
    }
    if (header.length == 0) continue;
    return read_whole(socket, scratch, header.length) == 1 ? (ssize_t)header.length : -1;
  }
}
