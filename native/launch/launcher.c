/* What the loop waits for: see launcher.h. */
#include "launch/launcher.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

#include "common/descriptor.h"

int source_add(struct launcher *launcher, struct source *source) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
  source->epoll_fd = launcher->epoll_fd;
  return epoll_ctl(launcher->epoll_fd, EPOLL_CTL_ADD, source->fd, &event);
}

int source_wait(struct launcher *launcher, struct source *source, unsigned events) {
  struct epoll_event event = {.events = events, .data.ptr = source};
  source->epoll_fd = launcher->epoll_fd;
  if (epoll_ctl(launcher->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) == 0) return 0;
  return errno == ENOENT ? epoll_ctl(launcher->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) : -1;
}

void source_leave(struct source *source) { (void)epoll_ctl(source->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL); }

void source_close(struct source *source) {
  if (source->fd < 0) return;
  source_leave(source);
  close_fd(&source->fd);
}
