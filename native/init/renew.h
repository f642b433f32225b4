/*
 * A guest that has run, and goes on from its memory as another sandbox: its processes go on, and PID 1 makes the machine one of its own.
 *
 * What is renewed: the kernel's random numbers, the clock, the host name with its line in /etc/hosts, and the id in /etc/machine-id
 * where there is one. The commands of the other one are nobody's here: they go on without a client.
 */
#ifndef SQUASH_INIT_RENEW_H
#define SQUASH_INIT_RENEW_H
#include <stddef.h>
#include <stdint.h>

struct connection;

/* Before anybody else runs. Returns 0 or -1 with errno. */
int renew_prepare(void);
void renew_request(struct connection *connection, uint8_t *payload, size_t length);

#endif
