/*
 * The event loop: epoll with one callback per descriptor, and the clock for deadlines.
 *
 * Owners live in static tables and may be freed and taken again while a batch of events is worked through:
 * `watch_remove` therefore also strikes the watch out of the current batch.
 */
#ifndef SQUASH_LOOP_H
#define SQUASH_LOOP_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct watch {
  int fd; /* -1: none. Owned: watch_close closes it. */
  bool is_added;
  uint32_t events;
  void (*ready)(void *owner, uint32_t events);
  void *owner;
};

int loop_start(void);
/* Waits for events, `timeout_ms` at most (-1: for ever), and calls whoever they concern. */
void loop_turn(int timeout_ms);

void watch_start(struct watch *watch, int fd, void (*ready)(void *, uint32_t), void *owner);
/* Sets what is waited for. With 0 the descriptor leaves epoll: a hang-up, which epoll always reports, would else
 * come again and again while there is no room to act on it. */
void watch_for(struct watch *watch, uint32_t events);
/* Waits for nothing but the hang-up. */
void watch_for_hangup(struct watch *watch);
void watch_remove(struct watch *watch);
void watch_close(struct watch *watch);
/* Gives the descriptor away without closing it. */
int watch_take(struct watch *watch);

int64_t clock_ms(void);

#endif
