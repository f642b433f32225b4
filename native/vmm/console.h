/*
 * What the VMM's commands write, the guest's console among it: the last VMM_CONSOLE_BYTES are kept, and readers get these and
 * what comes. A reader that has not taken what is overwritten is cut off: neither the guest nor another reader waits for one.
 */
#ifndef SQUASH_VMM_CONSOLE_H
#define SQUASH_VMM_CONSOLE_H
#include <stddef.h>
#include <stdint.h>

struct connection;

/* Takes the reading end of a command's output. Where there is no room for one more it is closed. */
void console_listen(int fd);
void console_request(struct connection *connection, uint8_t *payload, size_t length);
void console_ready(struct connection *connection, uint32_t events);
/* Before the end: what the commands have written until now goes to who reads. */
void console_drain(void);

#endif
