/* The event loop: see loop.h. */
#include "common/loop.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_EVENTS = 64 };

static int epoll_fd = -1;
static struct epoll_event batch[BATCH_EVENTS];
static int batch_length;

int loop_start(void) {
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  return epoll_fd < 0 ? -1 : 0;
}

void loop_turn(int timeout_ms) {
  int got = epoll_wait(epoll_fd, batch, BATCH_EVENTS, timeout_ms);
  batch_length = got < 0 ? 0 : got;
  for (int i = 0; i < batch_length; i++) {
    struct watch *watch = batch[i].data.ptr;
    if (watch != NULL) watch->ready(watch->owner, batch[i].events);
  }
  batch_length = 0;
}

void watch_start(struct watch *watch, int fd, void (*ready)(void *, uint32_t), void *owner) {
  *watch = (struct watch){.fd = fd, .ready = ready, .owner = owner};
}

static void watch_set(struct watch *watch, uint32_t events) {
  if (watch->fd < 0 || (watch->is_added && watch->events == events)) return;
  struct epoll_event event = {.events = events, .data.ptr = watch};
  int operation = watch->is_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  /* Can fail only for want of memory or past the user's epoll limit. The descriptor is then silent until somebody
   * sets it again, which is what a stalled peer looks like: its owner's deadlines still hold. */
  if (epoll_ctl(epoll_fd, operation, watch->fd, &event) != 0) return;
  watch->is_added = true;
  watch->events = events;
}

void watch_for(struct watch *watch, uint32_t events) {
  if (events == 0) watch_remove(watch);
  else watch_set(watch, events);
}

void watch_for_hangup(struct watch *watch) {
  watch_set(watch, 0);
}

void watch_remove(struct watch *watch) {
  if (watch->fd < 0 || !watch->is_added) return;
  (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL); /* Fails only where it is not there any more. */
  watch->is_added = false;
  for (int i = 0; i < batch_length; i++) {
    if (batch[i].data.ptr == watch) batch[i].data.ptr = NULL;
  }
}

int watch_take(struct watch *watch) {
  watch_remove(watch);
  int fd = watch->fd;
  watch->fd = -1;
  return fd;
}

void watch_close(struct watch *watch) {
  int fd = watch_take(watch);
  if (fd >= 0) (void)close(fd); /* Sockets and pipes: nothing is lost that close could report. */
}

int64_t clock_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* Can't fail for this clock. */
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
