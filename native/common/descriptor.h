/*
 * Descriptors: closing at scope end, and whole reads and writes on blocking ones.
 *
 * `cleanup_fd` closes when the variable leaves its scope; `take_fd` hands ownership on. errno survives a cleanup,
 * so `return -errno_of_the_call` works behind one.
 */
#ifndef SQUASH_DESCRIPTOR_H
#define SQUASH_DESCRIPTOR_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void close_fd(int *fd);
#define cleanup_fd __attribute__((cleanup(close_fd))) int

static inline int take_fd(int *fd) {
  int taken = *fd;
  *fd = -1;
  return taken;
}

int set_close_on_exec(int fd, bool on);
int set_blocking(int fd, bool blocking);

/* Closes every descriptor from `first` on. */
void close_from(int first);

/* Reads exactly `length` bytes. Returns 1, 0 at an end before the first byte, -1 with errno (EPIPE: ended inside). */
int read_whole(int fd, void *buffer, size_t length);
/* Writes all; a socket whose peer is gone gives EPIPE and no signal. Returns 0 or -1 with errno. */
int write_whole(int fd, const void *buffer, size_t length);

/* Puts descriptors at 3, 4, 5 … in this order, inheritable; all others stay close-on-exec. */
int place_descriptors(const int *descriptors, int count);

#endif
