/* The stream that waits: see spare.h. */
#include "vmm/spare.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/frame.h"
#include "common/loop.h"

static struct watch spare = {.fd = -1};
static struct guest_heard heard;
static bool is_ready;

/* Once it is ready nothing is to come: not a byte, not an end. */
static void came(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  enum guest_answer answer = is_ready ? GUEST_REFUSES : guest_hear(spare.fd, &heard);
  if (answer == GUEST_IS_THERE) is_ready = true;
  else if (answer == GUEST_REFUSES) spare_drop();
}

void spare_make(const char *guest_path) {
  if (spare.fd >= 0) return;
  int fd = socket_reach(guest_path);
  if (fd < 0) return;
  heard.used = 0;
  is_ready = false;
  watch_start(&spare, fd, came, NULL);
  watch_for(&spare, EPOLLIN);
  if (guest_ask(fd, VMM_GUEST_PORT) != 0) spare_drop();
}

int spare_take(struct guest_heard *so_far, bool *is_there) {
  char byte;
  if (spare.fd < 0) return -1;
  *so_far = heard;
  *is_there = is_ready;
  if (!is_ready || (recv(spare.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)) return watch_take(&spare);
  spare_drop();
  return -1;
}

void spare_drop(void) {
  if (spare.fd >= 0) watch_close(&spare);
}
