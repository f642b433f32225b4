/* The table of commands: bounded, in static memory of which only used pages exist. See exec.h. */
#include <string.h>

#include "init/exec.h"
#include "init/kept_memory.h"

static struct exec execs[GUEST_EXECS_KNOWN_MAX];
/* Slots below were used at some time: scans stop here and untouched pages stay untouched. */
static unsigned used_slots;
static struct kept_memory rings = {.bytes = 3 * (size_t)GUEST_WINDOW_BYTES};

struct exec *exec_at(unsigned index) {
  return index < used_slots ? &execs[index] : NULL;
}

struct exec *exec_find(const uint8_t *id, size_t length) {
  for (unsigned i = 0; i < used_slots; i++) {
    struct exec *exec = &execs[i];
    if (exec->state != EXEC_FREE && exec->id_length == length && memcmp(exec->id, id, length) == 0) return exec;
  }
  return NULL;
}

unsigned exec_count_live(void) {
  unsigned count = 0;
  for (unsigned i = 0; i < used_slots; i++) count += exec_is_running(&execs[i]);
  return count;
}

static struct exec *oldest_forgettable(void) {
  struct exec *oldest = NULL;
  for (unsigned i = 0; i < used_slots; i++) {
    struct exec *exec = &execs[i];
    if (exec->state != EXEC_ENDED || exec->client != NULL) continue;
    if (oldest == NULL || exec->end_order < oldest->end_order) oldest = exec;
  }
  return oldest;
}

struct exec *exec_take_slot(void) {
  if (exec_count_live() >= GUEST_EXECS_LIVE_MAX) return NULL;
  struct exec *slot = NULL;
  for (unsigned i = 0; slot == NULL && i < used_slots; i++) {
    if (execs[i].state == EXEC_FREE) slot = &execs[i];
  }
  if (slot == NULL && used_slots < GUEST_EXECS_KNOWN_MAX) slot = &execs[used_slots++];
  if (slot == NULL) {
    slot = oldest_forgettable();
    if (slot != NULL) exec_free(slot);
  }
  return slot;
}

void exec_abandon_all(void) {
  for (unsigned i = 0; i < used_slots; i++) {
    if (execs[i].state == EXEC_FREE) continue;
    exec_streams_abandon(&execs[i]);
    exec_free(&execs[i]);
  }
}

void *exec_memory(void) { return kept_memory_take(&rings); }

static bool wrote_little(const struct exec *exec) {
  enum { LITTLE_BYTES = 4096 };
  bool is_little = exec->input.ring.end <= LITTLE_BYTES;
  for (int i = 0; i < STREAM_COUNT; i++) is_little = is_little && exec->streams[i].ring.end <= LITTLE_BYTES;
  return is_little;
}

void exec_free(struct exec *exec) {
  if (exec->client != NULL) exec_client->lost(exec->client);
  watch_close(&exec->status);
  exec_streams_close(exec);
  if (exec->memory != NULL) kept_memory_give(&rings, exec->memory, wrote_little(exec));
  memset(exec, 0, sizeof *exec);
}
