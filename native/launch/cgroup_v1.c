/*
 * Control groups, version 1 (alone or in a hybrid host): one hierarchy per controller.
 *
 * The groups stand at the top of each hierarchy, outside what a service manager tidies up; only root can make them,
 * so an ordinary user on such a host has no limits and is told so.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup_files.h"
#include "launch/cgroup_kind.h"
#include "common/clock.h"
#include "common/file.h"

/* Freezing waits for every process to leave the kernel; one in an uninterruptible read may take long. */
enum { FREEZE_MS = 5000, CPU_PERIOD_US = 100000 };
/* Of the memory's limit, and on top of it: an eighth of 1 GiB fills hundreds of connections' buffers. */
enum { SOCKET_SHARE = 8 };

static const char *const controllers[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = "memory", [CGROUP_CPU] = "cpu",         [CGROUP_CPUACCT] = "cpuacct",
    [CGROUP_PIDS] = "pids",     [CGROUP_FREEZER] = "freezer",
};

static int base_open(const char *controller, const char *base_name, bool is_new) {
  char path[PATH_MAX];
  if (!cgroup_mount_point(controller, path, sizeof path)) return -1;
  cleanup_fd hierarchy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (hierarchy < 0) return -1;
  if (is_new && mkdirat(hierarchy, base_name, 0755) != 0 && errno != EEXIST) return -1;
  cleanup_fd base = openat(hierarchy, base_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (base < 0 || !is_new) return take_fd(&base);
  cgroup_sweep(base);
  return cgroup_give_away(base) == 0 ? take_fd(&base) : -1;
}

static bool prepare_v1(struct cgroup_setup *setup, const char *base_name, bool is_new) {
  bool has_any = false;
  /* The freezer, which is the last, first: what a dead launcher left frozen can't die in the other hierarchies. */
  for (int i = CGROUP_CONTROLLERS - 1; i >= 0; i--) {
    setup->base[i] = base_open(controllers[i], base_name, is_new);
    setup->has[i] = setup->base[i] >= 0;
    has_any |= setup->has[i];
  }
  if (has_any) {
    snprintf(setup->detail, sizeof setup->detail, "cgroup version 1, %s at the top of each hierarchy", base_name);
  } else {
    snprintf(setup->detail, sizeof setup->detail, "cgroup version 1, where only root may make groups");
  }
  /* cpu and cpuacct are often one mount: then one directory serves both, and is joined once. */
  struct stat cpu;
  struct stat account;
  if (setup->has[CGROUP_CPU] && setup->has[CGROUP_CPUACCT] && fstat(setup->base[CGROUP_CPU], &cpu) == 0 &&
      fstat(setup->base[CGROUP_CPUACCT], &account) == 0 && cpu.st_dev == account.st_dev) {
    close_fd(&setup->base[CGROUP_CPUACCT]);
  }
  return has_any;
}

static int write_number(int base, const char *name, const char *file, uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  return cgroup_file_write(base, name, file, text);
}

static int limit_v1(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits) {
  int memory = setup->base[CGROUP_MEMORY];
  if (memory >= 0 && limits->memory_bytes > 0) {
    /* Memory and swap together as much as memory alone: no swap. The file is missing without swap accounting. Memory
       alone may never be more, so what raises both raises it last. */
    if (write_number(memory, name, "memory.limit_in_bytes", limits->memory_bytes) != 0 &&
        (write_number(memory, name, "memory.memsw.limit_in_bytes", limits->memory_bytes) != 0 ||
         write_number(memory, name, "memory.limit_in_bytes", limits->memory_bytes) != 0)) {
      return -1;
    }
    if (write_number(memory, name, "memory.memsw.limit_in_bytes", limits->memory_bytes) != 0 && errno != ENOENT) {
      return -1;
    }
    (void)write_number(memory, name, "memory.swappiness", 0);
    /* What lies in Internet sockets is a count of its own in this version, and without a limit not counted at all. */
    if (write_number(memory, name, "memory.kmem.tcp.limit_in_bytes", limits->memory_bytes / SOCKET_SHARE) != 0 &&
        errno != ENOENT && errno != EOPNOTSUPP) {
      return -1;
    }
  }
  int cpu = setup->base[CGROUP_CPU];
  if (cpu >= 0 && limits->cpu_milli > 0) {
    /* The kernel takes no quota below 1 ms. */
    uint64_t quota = limits->cpu_milli * (CPU_PERIOD_US / 1000);
    if (write_number(cpu, name, "cpu.cfs_quota_us", quota < 1000 ? 1000 : quota) != 0) return -1;
  }
  int pids = setup->base[CGROUP_PIDS];
  return pids >= 0 && limits->pids > 0 ? write_number(pids, name, "pids.max", limits->pids) : 0;
}

static int freeze_v1(const struct cgroup_setup *setup, const char *name, bool frozen) {
  int base = setup->base[CGROUP_FREEZER];
  const char *wanted = frozen ? "FROZEN" : "THAWED";
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/freezer.state", name);
  int64_t deadline = now_ms() + FREEZE_MS;
  for (;;) {
    char state[32];
    /* Written each time: a process forked in between is caught by the next write. */
    if (text_file_write(base, path, wanted) != 0 || text_file_read(base, path, state, sizeof state) < 0) return -1;
    if (strncmp(state, wanted, strlen(wanted)) == 0) return 0;
    if (now_ms() > deadline) {
      errno = ETIMEDOUT;
      return -1;
    }
    sleep_ms(1);
  }
}

static int usage_v1(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage) {
  char path[PATH_MAX];
  uint64_t nanoseconds = 0;
  int memory = setup->base[CGROUP_MEMORY];
  if (memory >= 0) {
    if (cgroup_file_number(memory, name, "memory.usage_in_bytes", &usage->memory_bytes) != 0) return -1;
    snprintf(path, sizeof path, "%s/memory.oom_control", name);
    long long kills = text_file_keyed_number(memory, path, "oom_kill");
    usage->oom_kills = kills < 0 ? 0 : (uint64_t)kills;
  }
  int account = setup->base[CGROUP_CPUACCT] >= 0 ? setup->base[CGROUP_CPUACCT] : setup->base[CGROUP_CPU];
  if (account >= 0 && cgroup_file_number(account, name, "cpuacct.usage", &nanoseconds) == 0) {
    usage->cpu_us = nanoseconds / 1000;
  }
  int pids = setup->base[CGROUP_PIDS];
  return pids >= 0 ? cgroup_file_number(pids, name, "pids.current", &usage->pids) : 0;
}

const struct cgroup_kind cgroup_v1 = {
    .prepare = prepare_v1, .limit = limit_v1, .freeze = freeze_v1, .usage = usage_v1};
