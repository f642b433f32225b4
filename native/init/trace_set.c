/* What was refused: see trace_set.h. */
#include "init/trace_set.h"

#include <stdatomic.h>
#include <string.h>

/* A power of two, three times what is kept: searches stay short. */
enum { SLOTS = 32768 };
_Static_assert(SLOTS > 3 * GUEST_TRACED_PATHS_MAX, "searches end at a free slot");

static struct traced entries[GUEST_TRACED_PATHS_MAX];
static uint16_t slots[SLOTS]; /* index + 1; 0: free */
static char text[GUEST_TRACED_BYTES_MAX];
static size_t text_used;
static atomic_uint count;
static atomic_bool is_full;

static uint64_t hash_of(const char *path, enum path_intent intent) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)intent;
  for (; *path != '\0'; path++) hash = (hash ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 32;
}

/* Where it is, or the free slot where it belongs. */
static unsigned slot_of(uint64_t hash, const char *path, enum path_intent intent) {
  unsigned at = (unsigned)(hash % SLOTS);
  for (; slots[at] != 0; at = (at + 1) % SLOTS) {
    const struct traced *entry = &entries[slots[at] - 1];
    if (entry->hash == hash && entry->intent == intent && strcmp(entry->path, path) == 0) break;
  }
  return at;
}

bool trace_set_has(const char *path, enum path_intent intent) {
  return slots[slot_of(hash_of(path, intent), path, intent)] != 0;
}

void trace_set_add(const char *path, enum path_intent intent, uint64_t at_us) {
  uint64_t hash = hash_of(path, intent);
  unsigned at = slot_of(hash, path, intent);
  if (slots[at] != 0) return;
  unsigned index = atomic_load_explicit(&count, memory_order_relaxed);
  size_t length = strlen(path);
  if (index == GUEST_TRACED_PATHS_MAX || length + 1 > sizeof text - text_used) {
    atomic_store(&is_full, true);
    return;
  }
  char *kept = text + text_used;
  memcpy(kept, path, length + 1);
  text_used += length + 1;
  entries[index] = (struct traced){.hash = hash, .at_us = at_us, .path = kept, .length = (uint32_t)length, .intent = intent};
  slots[at] = (uint16_t)(index + 1);
  atomic_store_explicit(&count, index + 1, memory_order_release);
}

unsigned trace_set_count(void) {
  return atomic_load_explicit(&count, memory_order_acquire);
}

const struct traced *trace_set_at(unsigned index) {
  return &entries[index];
}

bool trace_set_is_full(void) {
  return atomic_load(&is_full);
}

/* Puts each name of `path` behind what `out` has; `used` has the bytes before the terminator. */
static bool append_names(const char *path, char out[GUEST_PATH_BYTES_MAX], size_t *used) {
  while (*path != '\0') {
    size_t length = strcspn(path, "/");
    bool is_up = length == 2 && path[0] == '.' && path[1] == '.';
    if (is_up) {
      while (*used > 0 && out[--*used] != '/') continue;
    } else if (length > 0 && !(length == 1 && path[0] == '.')) {
      if (*used + 1 + length >= GUEST_PATH_BYTES_MAX) return false;
      out[(*used)++] = '/';
      memcpy(out + *used, path, length);
      *used += length;
    }
    path += length;
    while (*path == '/') path++;
  }
  return true;
}

bool trace_path_join(const char *base, const char *path, char out[GUEST_PATH_BYTES_MAX]) {
  size_t used = 0;
  if (path[0] != '/' && (base[0] != '/' || !append_names(base, out, &used))) return false;
  if (!append_names(path, out, &used)) return false;
  if (used == 0) out[used++] = '/';
  out[used] = '\0';
  return true;
}
