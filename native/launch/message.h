/* One message over a Unix socket, with descriptors along. */
#ifndef SQUASH_LAUNCH_MESSAGE_H
#define SQUASH_LAUNCH_MESSAGE_H
#include <stddef.h>
#include <sys/types.h>

enum { MESSAGE_DESCRIPTORS_MAX = 64 };

/* Returns 0 or -1. */
int message_send(int socket, const void *bytes, size_t length, const int *descriptors, unsigned count);
/* As message_send, but never waits: -1 with EAGAIN where the other end takes nothing now. */
int message_offer(int socket, const void *bytes, size_t length, const int *descriptors, unsigned count);
/* Receives at most one descriptor (-1 where none came); more are closed. Returns the bytes, 0 at the end, -1. */
ssize_t message_receive(int socket, void *bytes, size_t size, int *descriptor);
/* At most `max` descriptors, in order; places where none came are -1. */
ssize_t message_receive_some(int socket, void *bytes, size_t size, int *descriptors, unsigned max);
/* The same for `count` descriptors; all are -1 unless exactly that many came. */
ssize_t message_receive_all(int socket, void *bytes, size_t size, int *descriptors, unsigned count);

#endif
