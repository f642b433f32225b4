/* A connection attached to a command: requests for commands, and the frames of both directions. */
#ifndef SQUASH_INIT_EXEC_CONNECTION_H
#define SQUASH_INIT_EXEC_CONNECTION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct exec_client;

void exec_connection_request(struct connection *connection, uint8_t *payload, size_t length);
void exec_connection_attach(struct connection *connection, uint8_t *payload, size_t length);
void exec_connection_list(struct connection *connection);
/* Returns the bytes used, fewer only where the command was released; 0: the connection is closed. */
size_t exec_connection_receive(struct connection *connection, const uint8_t *bytes, size_t length);
/* Puts the next frame into `out`; false where there is nothing to send. */
bool exec_connection_compose(struct connection *connection);

/* What commands tell the connection they are attached to. */
extern const struct exec_client exec_connection_client;

#endif
