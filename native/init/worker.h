/*
 * File operations: each is done by a forked child that owns its connection until it has answered.
 *
 * A child, because a file system can block for ever (FUSE, a dead network mount) and an operation can be long: PID 1
 * must not wait, and plain blocking code is the easiest to get right. The fork costs about 0.1 ms. A client that
 * hangs up gets its worker killed, so nothing runs that nobody waits for.
 */
#ifndef SQUASH_INIT_WORKER_H
#define SQUASH_INIT_WORKER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct connection;

bool worker_serves(uint8_t type);
void worker_request(struct connection *connection, uint8_t type, uint8_t *payload, size_t length);
void worker_lost_client(struct connection *connection);
/* A child of PID 1 ended. False where it is no worker. */
bool worker_child_ended(pid_t pid);

#endif
