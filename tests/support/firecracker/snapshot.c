/* See snapshot.h. */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "migration.h"
#include "qemu.h"

enum { PIECE_BYTES = 1 << 20, PAGE_BYTES = 4096, BYTES_PER_MIB = 1 << 20 };

/* One of another version is refused. */
static const char magic[32] = "snapshot of the stand-in " VERSION;

struct header {
  char magic[sizeof magic];
  uint64_t machine_bytes, stream_bytes;
  struct machine machine;
};

static char piece[PIECE_BYTES];

/* False, with errno: an end that comes too early is one of the file's. */
static bool read_all(int fd, void *into, size_t length) {
  for (size_t taken = 0; taken < length;) {
    ssize_t got = read(fd, (char *)into + taken, length - taken);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) return false;
    taken += (size_t)got;
  }
  return true;
}

static bool write_all(int fd, const void *from, size_t length) {
  for (size_t written = 0; written < length;) {
    ssize_t put = write(fd, (const char *)from + written, length - written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    written += (size_t)put;
  }
  return true;
}

static bool copy_all(int from, int to, uint64_t length) {
  while (length > 0) {
    size_t next = length < sizeof piece ? (size_t)length : sizeof piece;
    if (!read_all(from, piece, next) || !write_all(to, piece, next)) return false;
    length -= next;
  }
  return true;
}

static void close_both(int one, int other) {
  int number = errno;
  if (one >= 0) (void)close(one);
  if (other >= 0) (void)close(other);
  errno = number;
}

static off_t memory_bytes(const struct machine *machine) { return (off_t)machine->mib * BYTES_PER_MIB; }

static const char *write_state(const struct machine *machine, const char *path) {
  static struct header header;
  struct stat status;
  int stream = open(MIGRATION_STREAM, O_RDONLY | O_CLOEXEC);
  if (stream < 0 || fstat(stream, &status) != 0) return fault_of_errno("Cannot save the microVM state");
  header = (struct header){.machine_bytes = sizeof *machine, .stream_bytes = (uint64_t)status.st_size, .machine = *machine};
  memcpy(header.magic, magic, sizeof magic);
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const char *fault = NULL;
  if (to < 0) fault = fault_of_errno("Cannot perform open on the snapshot backing file");
  else if (!write_all(to, &header, sizeof header) || !copy_all(stream, to, header.stream_bytes) || fsync(to) != 0) {
    fault = fault_of_errno("Cannot write the snapshot file");
  }
  close_both(stream, to);
  return fault;
}

/* One that has the right size is written over, as the real one does. */
static const char *write_memory(const struct machine *machine, const char *path) {
  struct stat status;
  int to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (to < 0 || fstat(to, &status) != 0) return fault_of_errno("Cannot perform open on the memory backing file");
  const char *fault = NULL;
  bool is_sized = status.st_size == memory_bytes(machine) || (ftruncate(to, 0) == 0 && ftruncate(to, memory_bytes(machine)) == 0);
  if (!is_sized) fault = fault_of_errno("Cannot perform set_length on the memory backing file");
  else if (lseek(qemu_memory, 0, SEEK_SET) != 0 || !copy_all(qemu_memory, to, (uint64_t)memory_bytes(machine)) || fsync(to) != 0) {
    fault = fault_of_errno("Cannot write the memory file");
  }
  close_both(to, -1);
  return fault;
}

const char *snapshot_write(const struct machine *machine, const char *state, const char *memory) {
  const char *fault = migration_save();
  if (fault == NULL) fault = write_state(machine, state);
  return fault != NULL ? fault : write_memory(machine, memory);
}

static const char *judge_header(const struct header *header, off_t file_bytes) {
  if (memcmp(header->magic, magic, sizeof magic) != 0) return "Failed to get snapshot state from file: it is none of this version";
  if (header->machine_bytes != sizeof header->machine || header->machine.drive_count > DRIVES_MAX ||
      header->stream_bytes != (uint64_t)file_bytes - sizeof *header) {
    return "Failed to get snapshot state from file: its length is wrong";
  }
  return NULL;
}

const char *snapshot_read_state(struct machine *machine, const char *state) {
  static struct header header;
  struct stat status;
  int from = open(state, O_RDONLY | O_CLOEXEC), to = -1;
  if (from < 0 || fstat(from, &status) != 0) return fault_of_errno("Failed to get snapshot state from file: Failed to open snapshot file");
  const char *fault = NULL;
  if (!read_all(from, &header, sizeof header)) fault = fault_of_errno("Failed to get snapshot state from file");
  else fault = judge_header(&header, status.st_size);
  if (fault == NULL) {
    to = open(MIGRATION_STREAM, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0 || !copy_all(from, to, header.stream_bytes)) fault = fault_of_errno("Failed to get snapshot state from file");
  }
  close_both(from, to);
  if (fault == NULL) *machine = header.machine;
  return fault;
}

/* Pages of zeros stay holes. */
static bool fill(int from, off_t length) {
  static const char zeros[PAGE_BYTES];
  for (off_t at = 0; at < length; at += PIECE_BYTES) {
    if (!read_all(from, piece, sizeof piece)) return false;
    for (off_t page = 0; page < PIECE_BYTES; page += PAGE_BYTES) {
      if (memcmp(piece + page, zeros, PAGE_BYTES) == 0) continue;
      if (pwrite(qemu_memory, piece + page, PAGE_BYTES, at + page) != PAGE_BYTES) return false;
    }
  }
  return true;
}

const char *snapshot_read_memory(const struct machine *machine, const char *memory) {
  struct stat status;
  int from = open(memory, O_RDONLY | O_CLOEXEC);
  if (from < 0 || fstat(from, &status) != 0) return fault_of_errno("Failed to load guest memory: Error creating guest memory from file");
  const char *fault = NULL;
  if (status.st_size < memory_bytes(machine)) fault = "Failed to load guest memory: Error creating guest memory from file: the file is smaller than it";
  else if (!fill(from, memory_bytes(machine))) fault = fault_of_errno("Failed to load guest memory");
  close_both(from, -1);
  return fault;
}
