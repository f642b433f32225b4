/*
 * What one connection may hold in the kernel when one of its ends does not read: a few connections are as fast as the
 * kernel makes them, many of one sandbox hold little each, so that a program can't fill the host's memory with
 * them. All that lies in such buffers counts for no sandbox.
 */
#include <sys/socket.h>

#include "relay/state.h"

enum {
  /* So many have what the kernel gives: up to 6 MB towards the world, what the listener says towards the program. */
  FAST_CONNECTIONS = 64,
  MANY_CONNECTIONS = 1024,
  /* Each way and end, and the kernel doubles it: a page load's worth. */
  MEDIUM_BYTES = 65536,
  /* 16,384 connections whose four buffers are full hold 2 GB. Each still moves 16 KiB per round trip. */
  SMALL_BYTES = 16384,
};

void buffers_limit(const struct relay *relay, int fd) {
  if (relay->connection_count <= FAST_CONNECTIONS) return;
  int bytes = relay->connection_count <= MANY_CONNECTIONS ? MEDIUM_BYTES : SMALL_BYTES;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}
