/* Accepting: see listener.h. */
#include "common/listener.h"

#include <errno.h>
#include <stddef.h>

#include "common/descriptor.h"
#include "common/loop.h"

enum {
  ACCEPTS_PER_TURN = 32,
  /* Without a free descriptor the listener stays readable: looking again at once would spin. */
  ACCEPT_PAUSE_MS = 20,
};

static void (*take)(int fd, const struct sockaddr_storage *peer);
static struct watch listener;
static int64_t accept_again_ms; /* 0: no pause */

static void listener_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof peer;
    int fd = accept4(listener.fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      take(fd, &peer);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      watch_remove(&listener);
      accept_again_ms = clock_ms() + ACCEPT_PAUSE_MS;
    }
    return;
  }
}

int listener_start(int listen_fd, void (*accepted)(int fd, const struct sockaddr_storage *peer)) {
  take = accepted;
  if (set_close_on_exec(listen_fd, true) != 0 || set_blocking(listen_fd, false) != 0) return -1;
  watch_start(&listener, listen_fd, listener_ready, NULL);
  watch_for(&listener, EPOLLIN);
  return 0;
}

int listener_pause_ms(void) {
  if (accept_again_ms == 0) return -1;
  int64_t left = accept_again_ms - clock_ms();
  if (left > 0) return (int)left;
  accept_again_ms = 0;
  watch_for(&listener, EPOLLIN);
  return -1;
}
