/*
 * Ports: a connection whose first frame is `dial` is joined to a TCP connection on the sandbox's loopback. After
 * `ok` both carry raw bytes; an end in one direction is passed on without ending the other.
 */
#ifndef SQUASH_INIT_DIAL_H
#define SQUASH_INIT_DIAL_H
#include <stddef.h>
#include <stdint.h>

struct connection;

void dial_request(struct connection *connection, uint8_t *payload, size_t length);
/* The daemon's side can be read or written, or hung up. */
void dial_ready(struct connection *connection);

#endif
