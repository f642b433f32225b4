/*
 * Streams to the guest and to the VMM's control socket, and one from the VMM: its guest's memory.
 *
 * The guest is reached as `guest_socket.h` says, or by a stream that waits (`spare.h`). No half-close is passed on, because there it ends
 * both directions.
 */
#ifndef SQUASH_VMM_LINK_H
#define SQUASH_VMM_LINK_H
#include <stddef.h>
#include <stdint.h>

struct connection;

void link_request_guest(struct connection *connection, uint8_t *payload, size_t length);
void link_request_control(struct connection *connection, uint8_t *payload, size_t length);
/*
 * As the one before, and nobody is let through as long as it lasts: a vsock device must hear of no connection before the guest has taken
 * it. The thread of vhost-device-vsock ends without a word when it does between two of QEMU's messages. Streams to the guest from before
 * end with it.
 */
void link_request_device(struct connection *connection, uint8_t *payload, size_t length);
/* The VMM comes itself: it connects to `<control>_memory`. */
void link_request_memory(struct connection *connection, uint8_t *payload, size_t length);
void link_ready(struct connection *connection, uint32_t events);
void link_closing(struct connection *connection);

/* Where both are, and that the guest will tell when it takes connections: it connects to `<guest>_1`. Returns 0 or -1 with errno. */
int links_start(const char *guest, const char *control);
/* The guest takes connections already, and tells nobody: it goes on from the memory of one that did. */
void links_are_ready(void);
/* The VMM could not be started: nobody waits for it. */
void links_give_up(void);
/* Tries again and gives up what is due. Returns the ms until the next, -1: none. */
int links_turn(void);

#endif
