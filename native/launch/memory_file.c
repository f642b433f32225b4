/* Sealed files in memory: see memory_file.h. */
#include "launch/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#define F_SEAL_WRITE 0x0008
#endif

enum { COPIED_BYTES_MAX = 16 * 1024 * 1024 };

int memory_file(const char *name, const void *bytes, size_t length) {
  cleanup_fd fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  /* Kernels before 6.3 do not know MFD_EXEC and make every memfd executable. */
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || write_whole(fd, bytes, length) != 0) return -1;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) return -1;
  return take_fd(&fd);
}

int memory_file_copy(const char *name, int source) {
  struct stat status;
  if (fstat(source, &status) != 0) return -1;
  if (status.st_size <= 0 || status.st_size > COPIED_BYTES_MAX) {
    errno = EFBIG;
    return -1;
  }
  size_t length = (size_t)status.st_size;
  void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, source, 0);
  if (bytes == MAP_FAILED) return -1;
  int fd = memory_file(name, bytes, length);
  munmap(bytes, length);
  return fd;
}

int memory_file_reopen(int fd) { return open(fd_path(fd, "").text, O_RDONLY | O_CLOEXEC); }
