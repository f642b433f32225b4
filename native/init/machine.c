/* A guest's PID 1: see machine.h. */
#include "init/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/capabilities.h"
#include "common/clock.h"
#include "common/descriptor.h"
#include "common/file.h"

/* A command that is deep in the kernel stops when it comes out. */
enum { FREEZE_MS_MAX = 10000, LOOK_MS = 5 };

static bool is_guest;
/* What commands began with, and what they may have now. 0: not read yet. */
static uint64_t whole, held;

void machine_begin(void) {
  is_guest = true;
  for (int fd = MACHINE_UPPER; fd < MACHINE_END; fd++) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

bool machine_is(void) { return is_guest; }

int machine_confine(void) {
  if (!is_guest) return 0;
  for (size_t i = 0; i < MACHINE_CAPABILITIES; i++) {
    if (prctl(PR_CAPBSET_DROP, machine_capabilities[i]) != 0) return -1;
  }
  return machine_capabilities_use(false);
}

int machine_capabilities_use(bool on) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return -1;
  for (size_t i = 0; i < MACHINE_CAPABILITIES; i++) {
    uint32_t bit = UINT32_C(1) << machine_capabilities[i] % 32;
    struct __user_cap_data_struct *word = &data[machine_capabilities[i] / 32];
    word->effective = on ? word->effective | bit : word->effective & ~bit;
  }
  return (int)syscall(SYS_capset, &header, data);
}

pid_t machine_fork(void) {
  if (!is_guest) return fork();
  struct clone_args how = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = MACHINE_GROUP};
  return (pid_t)syscall(SYS_clone3, &how, sizeof how);
}

int machine_freeze(void) {
  if (text_file_write(MACHINE_GROUP, "cgroup.freeze", "1") != 0) return -1;
  for (int64_t until_ms = now_ms() + FREEZE_MS_MAX; now_ms() < until_ms; sleep_ms(LOOK_MS)) {
    if (text_file_keyed_number(MACHINE_GROUP, "cgroup.events", "frozen") == 1) return 0;
  }
  machine_thaw();
  errno = ETIMEDOUT;
  return -1;
}

static int group_number(const char *file, uint64_t *number) {
  char text[32];
  char *end = NULL;
  if (text_file_read(MACHINE_GROUP, file, text, sizeof text) < 0) return -1;
  *number = strtoull(text, &end, 10);
  if (end != text) return 0;
  errno = EINVAL;
  return -1;
}

int machine_memory_limit(uint64_t *bytes) {
  if (whole == 0) {
    if (group_number("memory.max", &whole) != 0) return -1;
    held = whole;
  }
  *bytes = held;
  return 0;
}

int machine_memory_used(uint64_t *bytes) { return group_number("memory.current", bytes); }

int machine_hold_memory(void) { return text_file_write_format(MACHINE_GROUP, "memory.max", "%llu", (unsigned long long)held); }

int machine_take_memory(uint64_t bytes) {
  uint64_t used = 0, before = 0;
  if (machine_memory_limit(&before) != 0 || machine_memory_used(&used) != 0) return -1;
  uint64_t left = bytes < whole ? whole - bytes : 0;
  if (used > left) {
    /* What is cached goes. A limit below what is used would end commands. */
    (void)text_file_write_format(MACHINE_GROUP, "memory.reclaim", "%llu", (unsigned long long)(used - left));
    if (machine_memory_used(&used) != 0) return -1;
    if (used > left) {
      errno = ENOMEM;
      return -1;
    }
  }
  held = left;
  if (machine_hold_memory() == 0) return 0;
  held = before;
  return -1;
}

uint64_t machine_oom_kills(void) {
  static long long told;
  long long count = is_guest ? text_file_keyed_number(MACHINE_GROUP, "memory.events", "oom_kill") : -1;
  if (count <= told) return 0;
  uint64_t more = (uint64_t)(count - told);
  told = count;
  return more;
}

void machine_thaw(void) { (void)text_file_write(MACHINE_GROUP, "cgroup.freeze", "0"); }
