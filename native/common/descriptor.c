/* Descriptors: see descriptor.h. */
#include "common/descriptor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void close_fd(int *fd) {
  if (*fd < 0) return;
  int saved = errno;
  (void)close(*fd); /* The descriptor is gone whatever close answers; nothing here writes through a cache. */
  *fd = -1;
  errno = saved;
}

int set_close_on_exec(int fd, bool on) {
  return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
}

int set_blocking(int fd, bool blocking) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -1;
  int wanted = blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
  return wanted == flags ? 0 : fcntl(fd, F_SETFL, wanted);
}

void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) return;
#endif
  /* An old kernel or a filter without close_range: what /proc lists, else every number that can be open. */
  DIR *directory = opendir("/proc/self/fd");
  if (directory == NULL) {
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (max > 0 && max < 65536 ? (int)max : 65536); fd++) (void)close(fd);
    return;
  }
  int own = dirfd(directory);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    int fd = atoi(entry->d_name);
    if (fd >= first && fd != own) (void)close(fd);
  }
  (void)closedir(directory);
}

int read_whole(int fd, void *buffer, size_t length) {
  char *at = buffer;
  for (size_t done = 0; done < length;) {
    ssize_t got = read(fd, at + done, length - done);
    if (got > 0) {
      done += (size_t)got;
    } else if (got == 0) {
      if (done == 0) return 0;
      errno = EPIPE;
      return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 1;
}

int write_whole(int fd, const void *buffer, size_t length) {
  const char *at = buffer;
  for (size_t done = 0; done < length;) {
    ssize_t put = send(fd, at + done, length - done, MSG_NOSIGNAL);
    if (put < 0 && errno == ENOTSOCK) put = write(fd, at + done, length - done);
    if (put >= 0) {
      done += (size_t)put;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 0;
}

int place_descriptors(const int *descriptors, int count) {
  int high[16];
  if (count > 16) return -1;
  /* First out of the way of the places, then into them. */
  for (int i = 0; i < count; i++) {
    high[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 64);
    if (high[i] < 0) return -1;
  }
  for (int i = 0; i < count; i++) {
    if (dup2(high[i], 3 + i) < 0) return -1;
  }
  return 0;
}
