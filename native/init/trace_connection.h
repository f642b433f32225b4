/* What the daemon asks of a trace of paths. */
#ifndef SQUASH_INIT_TRACE_CONNECTION_H
#define SQUASH_INIT_TRACE_CONNECTION_H
#include <stddef.h>
#include <stdint.h>

struct connection;

/* Answers with what was refused behind an offset. Without a trace that is nothing. */
void trace_connection_list(struct connection *connection, uint8_t *payload, size_t length);

#endif
