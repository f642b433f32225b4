/*
 * The Unix socket by which the VMM or its vsock back end lets others through to the guest: `CONNECT <port>` and a line's end there, `OK …` and
 * a line's end back, then raw bytes. The request goes in one write and nothing behind it before the answer, and the
 * answer is taken to its end and no further: one back end drops what comes split, and the other what comes early. An end without an
 * answer, silence and a refusal all mean "not yet".
 */
#ifndef SQUASH_VMM_GUEST_SOCKET_H
#define SQUASH_VMM_GUEST_SOCKET_H
#include <stdint.h>
#include <sys/un.h>

enum guest_answer { GUEST_IS_SILENT, GUEST_IS_THERE, GUEST_REFUSES };

/* `OK 4294967295`. */
enum { GUEST_OK_BYTES_MAX = 13 };

/* Of its answer, so far. */
struct guest_heard {
  char text[GUEST_OK_BYTES_MAX];
  uint8_t used;
};

/* `path` and `suffix` as one. Returns 0 or -1 with errno. */
int socket_address(struct sockaddr_un *address, const char *path, const char *suffix);
/* A connection that waits for nothing. Returns -1 with errno. */
int socket_reach(const char *path);
/* Returns 0 or -1 with errno. */
int guest_ask(int fd, uint16_t port);
/* Takes what has come of the answer. errno says why it refuses, 0: it said something else. */
enum guest_answer guest_hear(int fd, struct guest_heard *heard);

#endif
