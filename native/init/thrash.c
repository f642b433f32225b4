/*
 * Commands that keep each other from running: see thrash.h.
 *
 * What a newcomer would get wrong: pages that are read again are no sign of it by themselves. Whoever reads a file that is larger than
 * memory reads all of it anew each time, and gets on. What stands still has next to no pages of files left, reads as many again and again
 * because programs miss them (and so has few pages for each of a program's faults, where a reader has a thousand), and spends its time in
 * the kernel. The figures below are from emulated machines of 128 MB with a kernel 7.3.
 */
#include "init/thrash.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/descriptor.h"
#include "common/file.h"
#include "init/machine.h"

enum {
  LOOK_MS = 5000,
  /* So many looks in a row must see it: some programs need a while until they have all that they need. */
  LOOKS = 3,
  /* Of the limit: pages of files were 1 to 9 % of it where commands stood still. */
  FILES_PART = 6,
  /* Each such page was read again 9 to 40 times in a look. */
  READ_AGAIN = 4,
  /* Fewer pages than this hold up nobody. */
  PAGES_MIN = 256,
  /* Read again for each fault of a program that had to wait: 25 to 125. Where files were read from end to end 500 and more, by four
     programs at once 190. */
  PAGES_PER_FAULT_MAX = 128,
  /* Of the kernel's time: programs had 1 to 6 % as much for themselves, and those that get on 18 % and more. */
  USER_PART = 12,
  /* Of all time: where the kernel has less, commands wait for something else. */
  SYSTEM_PART = 4,
  /* Of the limit: how much is to be free for pages of files then. */
  FREED_PART = 16,
  LOWERED_LOOK_MS = 100,
  LOWERED_MS_MAX = 10000,
  PAGE_BYTES = 4096,
};

struct counts {
  int64_t at_us;
  long long at_limit, read_again, faults, user_us, system_us;
};

static struct counts before;
static int looks;
static int64_t next_look_ms;
/* Commands are held to less than they may have. */
static bool is_lowered;
static uint64_t lowered_bytes;
static int64_t lowered_until_ms;

static long long stat_number(const char *key) { return text_file_keyed_number(MACHINE_GROUP, "memory.stat", key); }

static long long cpu_number(const char *key) { return text_file_keyed_number(MACHINE_GROUP, "cpu.stat", key); }

static bool is_still(const struct counts *now, uint64_t limit, uint64_t file_bytes) {
  long long again = now->read_again - before.read_again, faults = now->faults - before.faults;
  long long user = now->user_us - before.user_us, system = now->system_us - before.system_us;
  long long pages = (long long)(file_bytes / PAGE_BYTES);
  return file_bytes < limit / FILES_PART && again >= READ_AGAIN * (pages < PAGES_MIN ? PAGES_MIN : pages) &&
         again <= PAGES_PER_FAULT_MAX * faults && user < system / USER_PART && system > (now->at_us - before.at_us) / SYSTEM_PART;
}

/*
 * A newer kernel takes O_NONBLOCK for a wish to come back at once: those who want memory then find that there is none. An older one takes
 * what there is of files and ends commands before it comes back, which needs no page of theirs.
 */
static void lower(uint64_t limit, uint64_t file_bytes) {
  uint64_t used = 0, gone = file_bytes + limit / FREED_PART;
  if (machine_memory_used(&used) != 0 || used <= gone) return;
  lowered_bytes = used - gone;
  lowered_until_ms = now_ms() + LOWERED_MS_MAX;
  cleanup_fd fd = openat(MACHINE_GROUP, "memory.max", O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  is_lowered = fd >= 0 && dprintf(fd, "%llu", (unsigned long long)lowered_bytes) > 0;
}

static void look_while_lowered(void) {
  uint64_t used = 0;
  bool is_over = machine_memory_used(&used) != 0 || used <= lowered_bytes || now_ms() >= lowered_until_ms;
  /* Where commands were given another limit meanwhile, it is that one. */
  if (is_over) is_lowered = machine_hold_memory() != 0;
}

static void look(void) {
  struct counts now = {.at_us = now_us(), .at_limit = text_file_keyed_number(MACHINE_GROUP, "memory.events", "max")};
  /* Most machines are never at it, and this is all that they are asked. */
  if (now.at_limit == before.at_limit) {
    looks = 0;
    return;
  }
  now.read_again = stat_number("workingset_refault_file");
  now.faults = stat_number("pgmajfault");
  now.user_us = cpu_number("user_usec");
  now.system_us = cpu_number("system_usec");
  long long active = stat_number("active_file"), inactive = stat_number("inactive_file");
  uint64_t limit = 0, file_bytes = (uint64_t)active + (uint64_t)inactive;
  bool is_known = now.faults >= 0 && now.system_us >= 0 && active >= 0 && inactive >= 0 && machine_memory_limit(&limit) == 0;
  looks = is_known && is_still(&now, limit, file_bytes) ? looks + 1 : 0;
  before = now;
  if (looks < LOOKS) return;
  looks = 0;
  lower(limit, file_bytes);
}

int thrash_next_look_ms(void) {
  if (!machine_is()) return -1;
  int64_t left = next_look_ms - now_ms();
  return left < 0 ? 0 : (int)left;
}

void thrash_look(void) {
  if (thrash_next_look_ms() != 0) return;
  if (is_lowered) look_while_lowered();
  else look();
  next_look_ms = now_ms() + (is_lowered ? LOWERED_LOOK_MS : LOOK_MS);
}
