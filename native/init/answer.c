/* What a file worker sends: see file.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/loop.h"
#include "common/scratch.h"
#include "init/file.h"

/* Longer silence would be taken for a worker that hangs; the daemon waits ten times as long for a first answer. */
enum { SILENCE_MS_MAX = 1000 };

/* Entries wait here for company: a large directory would else cost a system call each. */
static uint8_t outbox[16384];
static size_t outbox_used;

static void flush(int socket) {
  if (outbox_used > 0) (void)write_whole(socket, outbox, outbox_used);
  outbox_used = 0;
}

void answer_writer(int socket, struct frame_writer *writer) {
  size_t length = frame_finish(writer);
  flush(socket);
  if (length > 0) (void)write_whole(socket, writer->buffer, length);
}

static void answer_refusal(int socket, const char *code, int number, const char *what) {
  uint8_t buffer[512];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_ERROR);
  frame_text(&writer, FIELD_ERROR_CODE, code);
  frame_integer(&writer, FIELD_ERRNO, (uint64_t)number);
  frame_text(&writer, FIELD_MESSAGE, what);
  answer_writer(socket, &writer);
}

void answer_error(int socket, int number, const char *what) {
  answer_refusal(socket, "file_failed", number, what);
}

void answer_bad_request(int socket, const char *what) {
  answer_refusal(socket, "bad_request", EINVAL, what);
}

static void answer_empty(int socket, uint8_t type) {
  uint8_t header[FRAME_HEADER_BYTES];
  frame_header_write(header, type, 0);
  flush(socket);
  (void)write_whole(socket, header, sizeof header);
}

void answer_ok(int socket) {
  answer_empty(socket, FRAME_OK);
}

void answer_end(int socket) {
  answer_empty(socket, FRAME_END);
}

void answer_end_of_list(int socket, bool is_truncated) {
  uint8_t buffer[64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_END);
  if (is_truncated) frame_integer(&writer, FIELD_TRUNCATED, 1);
  answer_writer(socket, &writer);
}

void answer_progress(int socket) {
  static int64_t told_ms;
  int64_t now_ms = clock_ms();
  if (told_ms == 0) told_ms = now_ms;
  if (now_ms - told_ms < SILENCE_MS_MAX) return;
  told_ms = now_ms;
  answer_empty(socket, FRAME_PROGRESS);
}

void answer_data(int socket, const uint8_t *bytes, size_t length) {
  uint8_t header[FRAME_HEADER_BYTES];
  frame_header_write(header, FRAME_DATA, (uint32_t)length);
  flush(socket);
  if (write_whole(socket, header, sizeof header) != 0 || write_whole(socket, bytes, length) != 0) _exit(0);
}

static uint64_t file_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FILE_TYPE_FILE;
    case S_IFDIR: return FILE_TYPE_DIRECTORY;
    case S_IFLNK: return FILE_TYPE_SYMLINK;
    case S_IFIFO: return FILE_TYPE_FIFO;
    case S_IFSOCK: return FILE_TYPE_SOCKET;
    default: return FILE_TYPE_DEVICE;
  }
}

/* Times before 1970 and sizes of odd files do not fit an unsigned field: 0 stands for them. */
static uint64_t not_negative(int64_t value) {
  return value < 0 ? 0 : (uint64_t)value > INTEGER_MAX ? INTEGER_MAX : (uint64_t)value;
}

uint64_t file_changed_us(const struct stat *stat) {
  int64_t seconds = stat->st_ctim.tv_sec;
  bool is_far = seconds > (int64_t)(INTEGER_MAX / 1000000) - 1;
  return is_far ? INTEGER_MAX : not_negative(seconds * 1000000 + stat->st_ctim.tv_nsec / 1000);
}

void answer_entry(int socket, const char *name, const struct stat *stat, const char *target) {
  enum { ENTRY_BYTES_MAX = 2 * GUEST_PATH_BYTES_MAX + 256 };
  if (sizeof outbox - outbox_used < ENTRY_BYTES_MAX) flush(socket);
  struct frame_writer writer = frame_writer_on(outbox + outbox_used, sizeof outbox - outbox_used);
  frame_begin(&writer, FRAME_ENTRY);
  if (name != NULL) frame_text(&writer, FIELD_PATH, name);
  frame_integer(&writer, FIELD_FILE_TYPE, file_type(stat->st_mode));
  frame_integer(&writer, FIELD_SIZE, not_negative(stat->st_size));
  frame_integer(&writer, FIELD_MODE, stat->st_mode & 07777);
  frame_integer(&writer, FIELD_UID, stat->st_uid);
  frame_integer(&writer, FIELD_GID, stat->st_gid);
  int64_t seconds = stat->st_mtim.tv_sec;
  bool is_far = seconds > (int64_t)(INTEGER_MAX / 1000) - 1;
  frame_integer(&writer, FIELD_MTIME_MS, is_far ? INTEGER_MAX : not_negative(seconds * 1000 + stat->st_mtim.tv_nsec / 1000000));
  frame_integer(&writer, FIELD_INODE, stat->st_ino & INTEGER_MAX);
  frame_integer(&writer, FIELD_CHANGED_US, file_changed_us(stat));
  if (target != NULL) frame_text(&writer, FIELD_TARGET, target);
  outbox_used += frame_finish(&writer);
}

void answer_finish(int socket) {
  flush(socket);
  (void)shutdown(socket, SHUT_WR);
  while (recv(socket, scratch, sizeof scratch, 0) > 0) continue;
}
