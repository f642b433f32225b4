/* The piece that waits: see kept_memory.h. */
#include "init/kept_memory.h"

#include <sys/mman.h>

void *kept_memory_take(struct kept_memory *kept) {
  void *memory = kept->waiting;
  kept->waiting = NULL;
  if (memory != NULL) return memory;
  memory = mmap(NULL, kept->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void kept_memory_give(struct kept_memory *kept, void *memory, bool is_small) {
  if (is_small && kept->waiting == NULL) kept->waiting = memory;
  else (void)munmap(memory, kept->bytes);
}
