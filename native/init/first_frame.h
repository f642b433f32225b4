/* What a connection is for: its first frame goes to the part that serves it. */
#ifndef SQUASH_INIT_FIRST_FRAME_H
#define SQUASH_INIT_FIRST_FRAME_H
#include <stddef.h>
#include <stdint.h>

struct connection;

void first_frame_serve(struct connection *connection, uint8_t *payload, size_t length);

#endif
