/* Dials: see dial.h. */
#include "launch/dial.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "launch/egress.h"

/* Deadlines are looked at so often, not at every event: with thousands under way that would be most of the work. */
enum { SCAN_MS = 250 };

struct dial *dial_new(struct launcher *launcher, struct relay_seat *relay, uint64_t connection, int fd) {
  struct dial *dial = calloc(1, sizeof *dial);
  if (dial == NULL) return NULL;
  *dial = (struct dial){.next = launcher->dials, .relay = relay, .connection = connection, .source = {.fd = fd}};
  if (launcher->dials != NULL) launcher->dials->previous = dial;
  launcher->dials = dial;
  launcher->dial_count++;
  relay->sandbox->network.dial_count++;
  return dial;
}

/* Takes it out of those that wait for room in the relay's channel. */
static void leave_queue(struct dial *dial) {
  struct relay_seat *relay = dial->relay;
  struct dial *before = NULL;
  for (struct dial *at = relay->handover_first; at != dial; at = at->next_handover) before = at;
  if (before != NULL) before->next_handover = dial->next_handover;
  else relay->handover_first = dial->next_handover;
  if (relay->handover_last == dial) relay->handover_last = before;
}

void dial_end(struct launcher *launcher, struct dial *dial, int error) {
  struct sandbox *sandbox = dial->relay->sandbox;
  uint64_t connection = dial->connection;
  if (dial->is_connected) leave_queue(dial);
  if (dial->previous != NULL) dial->previous->next = dial->next;
  else launcher->dials = dial->next;
  if (dial->next != NULL) dial->next->previous = dial->previous;
  launcher->dial_count--;
  sandbox->network.dial_count--;
  source_close(&dial->source);
  free(dial);
  egress_say_dialed(launcher, sandbox->instance, connection, error);
}

void dials_cancel(struct launcher *launcher, const struct relay_seat *relay, int error) {
  for (struct dial *at = launcher->dials; at != NULL;) {
    struct dial *next = at->next;
    if (relay == NULL || at->relay == relay) dial_end(launcher, at, error);
    at = next;
  }
}

int64_t dials_expire(struct launcher *launcher) {
  static int64_t scan_ms;
  int64_t now = now_ms();
  if (launcher->dials == NULL) return 0;
  if (now < scan_ms) return scan_ms;
  for (struct dial *at = launcher->dials; at != NULL;) {
    struct dial *next = at->next;
    if (at->deadline_ms <= now) dial_end(launcher, at, ETIMEDOUT);
    at = next;
  }
  scan_ms = now + SCAN_MS;
  return scan_ms;
}

