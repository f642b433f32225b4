/* What all parts of the relay use: see state.h. */
#include "relay/state.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "common/descriptor.h"

int64_t relay_now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int waiter_set(struct relay *relay, struct waiter *waiter, uint32_t interest) {
  if (waiter->is_added ? waiter->interest == interest : interest == 0) return 0;
  struct epoll_event event = {.events = interest, .data.ptr = waiter};
  int operation = waiter->is_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(relay->epoll_fd, operation, waiter->fd, &event) != 0) return -1;
  waiter->is_added = true;
  waiter->interest = interest;
  return 0;
}

void waiter_close(const struct relay *relay, struct waiter *waiter) {
  /* Closing alone would leave it in the loop while the launcher, which handed it over, has not closed its own yet. */
  if (waiter->is_added) (void)epoll_ctl(relay->epoll_fd, EPOLL_CTL_DEL, waiter->fd, NULL);
  waiter->is_added = false;
  close_fd(&waiter->fd);
}

void relay_tell(const struct relay *relay, enum relay_word word) {
  struct relay_message message = {.word = word};
  (void)send(relay->launcher.fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void relay_listen(struct relay *relay) {
  bool hears = relay->control.fd >= 0 || relay_now_ms() - relay->lost_ms >= relay->plan.hold_ms;
  for (unsigned i = 0; i < RELAY_LISTENERS_MAX; i++) {
    if (relay->listeners[i].fd < 0) continue;
    bool is_open = !relay->is_paused && (i % 2 == 0 ? relay->accept_again_ms == 0 && !relay->is_full : hears);
    (void)waiter_set(relay, &relay->listeners[i], is_open ? EPOLLIN : 0);
  }
}
