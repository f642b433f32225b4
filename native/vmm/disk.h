/*
 * A file of the VMM's root without its holes: a guest's disk on its way to another VM.
 *
 *   stream = u64 size | (u64 offset | u64 length | bytes) … | u64 size | u64 0       little-endian, offsets ascending
 */
#ifndef SQUASH_VMM_DISK_H
#define SQUASH_VMM_DISK_H
#include <stddef.h>
#include <stdint.h>

struct connection;

/* `ok`, and the stream behind it. A process of its own writes it, so that nobody waits. */
void disk_request(struct connection *connection, uint8_t *payload, size_t length);
/* The same of a file that is taken away: its name is gone before the answer. */
void disk_request_taken(struct connection *connection, uint8_t *payload, size_t length);
/* Makes the new file `to` of such a stream. Returns 0 or an errno. */
int disk_unpack(const char *from, const char *to);
/* Makes the new file `to` of what lies in `from` behind so many bytes, a number in decimals. Returns 0 or an errno. */
int disk_behind(const char *from, const char *bytes, const char *to);
/* The same of both that are open; reads not a byte behind the stream's end. */
int disk_fill(int stream, int disk);

#endif
