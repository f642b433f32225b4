/* Takes connections from a listening socket, some in each turn: a flood of them must not keep what runs waiting. */
#ifndef SQUASH_LISTENER_H
#define SQUASH_LISTENER_H
#include <sys/socket.h>

/* `accepted` owns the descriptor; the peer's address is AF_UNSPEC where it has none. Returns 0 or -1 with errno. */
int listener_start(int listen_fd, void (*accepted)(int fd, const struct sockaddr_storage *peer));
/* Out of descriptors nothing is accepted for a moment. Returns the ms left, -1: no pause. */
int listener_pause_ms(void);

#endif
