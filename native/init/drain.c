/* Draining: see drain.h. */
#include "init/drain.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/loop.h"
#include "common/scratch.h"

struct drained {
  struct watch watch;
  uint64_t order;
  bool is_used;
};

static struct drained pipes[GUEST_DRAINED_PIPES_MAX];
static unsigned used_slots;
static uint64_t order;

static void release(struct drained *drained) {
  watch_close(&drained->watch);
  drained->is_used = false;
}

static void drained_ready(void *owner, uint32_t events) {
  (void)events;
  struct drained *drained = owner;
  ssize_t got = read(drained->watch.fd, scratch, sizeof scratch);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) release(drained);
}

static struct drained *take_slot(void) {
  struct drained *oldest = &pipes[0];
  for (unsigned i = 0; i < used_slots; i++) {
    if (!pipes[i].is_used) return &pipes[i];
    if (pipes[i].order < oldest->order) oldest = &pipes[i];
  }
  if (used_slots < GUEST_DRAINED_PIPES_MAX) return &pipes[used_slots++];
  release(oldest);
  return oldest;
}

void drain_adopt(int fd) {
  /* Mostly the command was the only writer: then the end is here and no slot is needed. Not into `scratch`: an acknowledgment may have
   * brought us here, and the frames behind it are read from there. */
  uint8_t some[512];
  ssize_t got = read(fd, some, sizeof some);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    (void)close(fd); /* A pipe's read end: nothing is lost. */
    return;
  }
  struct drained *drained = take_slot();
  watch_start(&drained->watch, fd, drained_ready, drained);
  drained->order = ++order;
  drained->is_used = true;
  watch_for(&drained->watch, EPOLLIN);
}
