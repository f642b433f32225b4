/*
 * Reading and writing a file's bytes. Only regular files: a FIFO or a device could block or never end, and is
 * better served by a command.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"
#include "init/scratch.h"

/* O_NONBLOCK so that a FIFO does not hold the open; regular files do not know the flag. */
static int open_regular(const char *path, int flags, mode_t mode) {
  cleanup_fd fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
  if (fd < 0) return -1;
  struct stat stat;
  if (fstat(fd, &stat) != 0) return -1;
  if (!S_ISREG(stat.st_mode)) {
    errno = S_ISDIR(stat.st_mode) ? EISDIR : EINVAL;
    return -1;
  }
  return take_fd(&fd);
}

static int send_data(int socket, const uint8_t *bytes, size_t length) {
  uint8_t header[FRAME_HEADER_BYTES];
  frame_header_write(header, FRAME_DATA, (uint32_t)length);
  if (write_whole(socket, header, sizeof header) != 0) return -1;
  return write_whole(socket, bytes, length);
}

void file_read(int socket) {
  uint64_t offset = 0, left = INTEGER_MAX;
  (void)request_integer(FIELD_OFFSET, 0, INTEGER_MAX, &offset); /* Every integer is in range. */
  (void)request_integer(FIELD_LENGTH, 0, INTEGER_MAX, &left);
  cleanup_fd fd = open_regular(request_path(FIELD_PATH), O_RDONLY, 0);
  if (fd < 0 || (offset > 0 && lseek(fd, (off_t)offset, SEEK_SET) < 0)) {
    answer_error(socket, errno, "open");
    return;
  }
  while (left > 0) {
    ssize_t got = read(fd, scratch, left < sizeof scratch ? (size_t)left : sizeof scratch);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      answer_error(socket, errno, "read");
      return;
    }
    if (got == 0) break;
    if (send_data(socket, scratch, (size_t)got) != 0) return;
    left -= (uint64_t)got;
  }
  answer_end(socket);
}

static int write_file(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, bytes, length);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return -1;
    bytes += put;
    length -= (size_t)put;
  }
  return 0;
}

/* Takes `data` frames up to `end`. Returns false after an answer or where the client is gone. */
static bool receive_file(int socket, int fd) {
  for (;;) {
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_header header;
    if (read_whole(socket, bytes, sizeof bytes) != 1) return false;
    if (frame_header_parse(bytes, &header) != FRAME_FINE) {
      answer_bad_request(socket, "not a frame");
      return false;
    }
    if (header.type == FRAME_END && header.length == 0) return true;
    if (header.type != FRAME_DATA) {
      answer_bad_request(socket, "neither data nor end");
      return false;
    }
    if (header.length > 0 && read_whole(socket, scratch, header.length) != 1) return false;
    if (write_file(fd, scratch, header.length) != 0) {
      answer_error(socket, errno, "write");
      return false;
    }
  }
}

void file_write(int socket) {
  uint64_t mode = 0644, create_parents = 0;
  if (!request_integer(FIELD_MODE, 0, 07777, &mode) || !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents)) {
    answer_bad_request(socket, "mode or createParents is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  if (create_parents == 1 && make_parents(path) != 0) {
    answer_error(socket, errno, "parent directories");
    return;
  }
  cleanup_fd fd = open_regular(path, O_WRONLY | O_CREAT | O_TRUNC, (mode_t)mode);
  if (fd < 0) {
    answer_error(socket, errno, "open");
    return;
  }
  if (!receive_file(socket, fd)) return;
  /* A mode that was asked for holds also for a file that existed, and past the umask. After the bytes, because
   * writing clears the set-id bits. */
  if (request.has[FIELD_MODE] && fchmod(fd, (mode_t)mode) != 0) {
    answer_error(socket, errno, "mode");
    return;
  }
  /* Some file systems report a full disk only here. */
  int closed = close(take_fd(&fd));
  if (closed != 0) answer_error(socket, errno, "close");
  else answer_ok(socket);
}
