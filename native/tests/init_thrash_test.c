/* Commands that keep each other from running: who is taken for that and who not, and whose limit holds when it is over. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/file.h"
#include "init/machine.h"
#include "init/thrash.h"
#include "tests/check.h"

enum { LIMIT = 40000000, PAGE = 4096 };

/* In the place of the C library's: time goes by when this test says so. */
static int64_t time_ms = 100000;
int clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  *now = (struct timespec){.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000};
  return 0;
}

/* What has happened since the last look, and what is there now. */
struct interval {
  long long pages_again, faults, user_ms, system_ms, file_bytes;
};
static const struct interval still = {4000, 100, 100, 4300, 1200000};

static void put(const char *name, const char *text) {
  int fd = openat(MACHINE_GROUP, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  (void)close(fd);
}

static void put_number(const char *name, long long number) {
  char text[32];
  (void)snprintf(text, sizeof text, "%lld\n", number);
  put(name, text);
}

static long long limit_now(void) {
  char text[32];
  return text_file_read(MACHINE_GROUP, "memory.max", text, sizeof text) < 0 ? -1 : atoll(text);
}

/* Five seconds later. */
static void pass(const struct interval *interval) {
  static long long hits, again, faults, user_us, system_us;
  char text[256];
  (void)snprintf(text, sizeof text, "low 0\nmax %lld\noom_kill 0\n", ++hits);
  put("memory.events", text);
  again += interval->pages_again;
  faults += interval->faults;
  (void)snprintf(text, sizeof text, "active_file %lld\ninactive_file %lld\nworkingset_refault_file %lld\npgmajfault %lld\n",
                 interval->file_bytes / 4, interval->file_bytes - interval->file_bytes / 4, again, faults);
  put("memory.stat", text);
  user_us += interval->user_ms * 1000;
  system_us += interval->system_ms * 1000;
  (void)snprintf(text, sizeof text, "usage_usec 0\nuser_usec %lld\nsystem_usec %lld\n", user_us, system_us);
  put("cpu.stat", text);
  time_ms += 5000;
  thrash_look();
}

static bool is_left_alone(struct interval interval) {
  static const struct interval calm = {0, 0, 4000, 1000, LIMIT / 2};
  pass(&calm);
  for (int i = 0; i < 4; i++) pass(&interval);
  bool is_alone = limit_now() == LIMIT;
  pass(&calm);
  return is_alone;
}

static void check_left_alone(void) {
  /* A reader of a large file, four at once, who has room, who works, who waits for something else, and who reads a little. */
  CHECK(is_left_alone((struct interval){36000, 190, 150, 4400, 1070000}));
  CHECK(is_left_alone((struct interval){150000, 130, 60, 4600, 3000000}));
  CHECK(is_left_alone((struct interval){40000, 400, 100, 4300, LIMIT / 5}));
  CHECK(is_left_alone((struct interval){4000, 100, 800, 4300, 1200000}));
  CHECK(is_left_alone((struct interval){4000, 100, 10, 1000, 1200000}));
  CHECK(is_left_alone((struct interval){900, 100, 10, 4300, 40000}));
}

/* Three looks in a row; then what is used, less what is of files and a sixteenth, until that is so. */
static void check_lowered(void) {
  static const struct interval calm = {0, 0, 4000, 1000, LIMIT / 2};
  for (int i = 0; i < 2; i++) pass(&still);
  pass(&calm);
  for (int i = 0; i < 2; i++) pass(&still);
  CHECK(limit_now() == LIMIT);
  pass(&still);
  CHECK(limit_now() == 39900000 - 1200000 - LIMIT / 16);
  CHECK(thrash_next_look_ms() == 100);
  time_ms += 100;
  thrash_look();
  CHECK(limit_now() < LIMIT);
  put_number("memory.current", 30000000);
  time_ms += 100;
  thrash_look();
  CHECK(limit_now() == LIMIT && thrash_next_look_ms() == 5000);
  put_number("memory.current", 39900000);
}

static void check_given_up(void) {
  for (int i = 0; i < 3; i++) pass(&still);
  CHECK(limit_now() < LIMIT);
  for (int i = 0; i < 99; i++) {
    time_ms += 100;
    thrash_look();
  }
  CHECK(limit_now() < LIMIT);
  time_ms += 100;
  thrash_look();
  CHECK(limit_now() == LIMIT);
}

/* Less, and again all, is asked for while they are held to less than they may have. */
static void check_changed(void) {
  for (int i = 0; i < 3; i++) pass(&still);
  CHECK(limit_now() < LIMIT);
  put_number("memory.current", 20000000);
  CHECK(machine_take_memory(10000000) == 0 && limit_now() == 30000000);
  time_ms += 100;
  thrash_look();
  CHECK(limit_now() == 30000000);
  put_number("memory.current", 29900000);
  for (int i = 0; i < 3; i++) pass(&still);
  CHECK(limit_now() == 29900000 - 1200000 - 30000000 / 16);
  /* What they use is more: refused, and what holds stays. */
  CHECK(machine_take_memory(15000000) != 0 && limit_now() < 30000000);
  CHECK(machine_take_memory(0) == 0 && limit_now() == LIMIT);
  for (int i = 0; i < 100; i++) {
    time_ms += 100;
    thrash_look();
  }
  CHECK(limit_now() == LIMIT);
}

int main(void) {
  char directory[] = "/tmp/squash-thrash-test.XXXXXX";
  int group = mkdtemp(directory) == NULL ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(thrash_next_look_ms() == -1);
  if (group < 0 || dup2(group, MACHINE_GROUP) < 0) return 1;
  machine_begin();
  put_number("memory.max", LIMIT);
  put_number("memory.current", 39900000);
  put("memory.reclaim", "");
  check_left_alone();
  check_lowered();
  check_given_up();
  check_changed();
  static const char *const names[] = {"memory.max", "memory.current", "memory.reclaim", "memory.events", "memory.stat", "cpu.stat"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) (void)unlinkat(MACHINE_GROUP, names[i], 0);
  CHECK(rmdir(directory) == 0);
  return check_summary();
}
