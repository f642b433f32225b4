/* Locks of the data directory: see claim.h. */
#include "launch/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"

/* Where SQLite locks a database: from its PENDING byte over RESERVED to the end of SHARED (os.h, "PENDING_BYTE"). */
enum { SQLITE_LOCK_START = 0x40000000, SQLITE_LOCK_BYTES = 512 };

int claim_turn(int data_fd, const char *data, struct fault *fault) {
  cleanup_fd lock = openat(data_fd, "launch.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX) == 0) return take_fd(&lock);
  return fault_disk(fault, "launch_failed", "can't lock \"%s/launch.lock\"", data);
}

int claim_open(int data_fd, const char *data, struct fault *fault) {
  cleanup_fd lock = openat(data_fd, "launcher.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) return fault_disk(fault, "launch_failed", "can't open \"%s/launcher.lock\"", data);
  struct stat status;
  /* It is written to, maybe by root, and lies in the daemon's directory: not through a second name of another file. */
  bool is_plain = fstat(lock, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
  errno = 0;
  return is_plain ? take_fd(&lock) : fault_set(fault, "launch_failed", "\"%s/launcher.lock\" is no file of its own", data);
}

bool claim_take(int claim) { return flock(claim, LOCK_EX | LOCK_NB) == 0; }

void claim_read(int claim, char run[PATH_MAX]) {
  ssize_t got = pread(claim, run, PATH_MAX - 1, 0);
  run[got > 0 ? got : 0] = '\0';
}

int claim_write(int claim, const char *run, struct fault *fault) {
  char present[PATH_MAX];
  claim_read(claim, present);
  if (strcmp(present, run) == 0) return 0; /* Needs no room on a full disk. */
  size_t length = strlen(run);
  if (ftruncate(claim, 0) == 0 && pwrite(claim, run, length, 0) == (ssize_t)length) return 0;
  return fault_disk(fault, "launch_failed", "can't write the run directory's path into launcher.lock");
}

bool claim_has_daemon(int data_fd) {
  cleanup_fd file = openat(data_fd, "daemon.lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SQLITE_LOCK_START, .l_len = SQLITE_LOCK_BYTES};
  return file >= 0 && fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
