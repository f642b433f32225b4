/*
 * Control groups, version 2: one hierarchy, of which we need a delegated part.
 *
 * root makes its group at the top; an ordinary user below the highest group that is its own (user@1000.service,
 * or a service with Delegate=yes). Standing above the service's own group matters: a service manager can't start
 * the next daemon in a group that has children with controllers, and sandboxes outlive the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup_files.h"
#include "launch/cgroup_kind.h"
#include "common/clock.h"
#include "common/file.h"

enum { FREEZE_MS = 5000, CPU_PERIOD_US = 100000 };

static bool is_own(const char *directory) {
  char procs[PATH_MAX];
  if (snprintf(procs, sizeof procs, "%s/cgroup.procs", directory) >= (int)sizeof procs) return false;
  return access(directory, W_OK) == 0 && access(procs, W_OK) == 0;
}

/* The highest group on the way from the top to ours that we may write to; false where there is none. */
static bool delegated_group(const char *mount_point, char *path, size_t size) {
  char own[PATH_MAX / 2];
  if (!cgroup_own_path(NULL, own, sizeof own)) return false;
  snprintf(path, size, "%s", mount_point);
  if (is_own(path)) return true;
  for (size_t end = 1; end <= strlen(own); end++) {
    if (own[end] != '/' && own[end] != '\0') continue;
    snprintf(path, size, "%s%.*s", mount_point, (int)end, own);
    if (is_own(path)) return true;
  }
  return false;
}

/* Processes of the group itself go to a leaf: a group with processes can't give controllers to children. */
static void move_processes_to_leaf(int group, const char *leaf) {
  char pids[4096];
  char path[64];
  if (mkdirat(group, leaf, 0755) != 0 && errno != EEXIST) return;
  snprintf(path, sizeof path, "%s/cgroup.procs", leaf);
  if (text_file_read(group, "cgroup.procs", pids, sizeof pids) < 0) return;
  char *rest = NULL;
  for (char *pid = strtok_r(pids, "\n", &rest); pid != NULL; pid = strtok_r(NULL, "\n", &rest)) {
    (void)text_file_write(group, path, pid);
  }
}

static void enable_controllers(int group) {
  static const char *const wanted[] = {"+memory", "+cpu", "+pids"};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    if (text_file_write(group, "cgroup.subtree_control", wanted[i]) == 0 || errno != EBUSY) continue;
    move_processes_to_leaf(group, "daemon");
    (void)text_file_write(group, "cgroup.subtree_control", wanted[i]);
  }
}

static int own_group(const char *mount_point) {
  char own[PATH_MAX / 2];
  char path[PATH_MAX];
  if (!cgroup_own_path(NULL, own, sizeof own)) return -1;
  snprintf(path, sizeof path, "%s%s", mount_point, own);
  return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Empties what a dead launcher left, and makes the group the daemon's. */
static bool furnish(int base) {
  cgroup_sweep(base);
  enable_controllers(base);
  if (mkdirat(base, "launcher", 0755) != 0 && errno != EEXIST) return false;
  cleanup_fd launcher = openat(base, "launcher", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return launcher >= 0 && cgroup_give_away(base) == 0 && cgroup_give_away(launcher) == 0;
}

static bool prepare_v2(struct cgroup_setup *setup, const char *base_name, bool is_new) {
  char mount_point[PATH_MAX / 2];
  char path[PATH_MAX];
  if (!cgroup_mount_point(NULL, mount_point, sizeof mount_point)) {
    snprintf(setup->detail, sizeof setup->detail, "no control group hierarchy is mounted");
    return false;
  }
  if (!delegated_group(mount_point, path, sizeof path)) {
    snprintf(setup->detail, sizeof setup->detail, "cgroup version 2, none of it delegated to uid %u", geteuid());
    return false;
  }
  cleanup_fd parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return false;
  if (is_new) enable_controllers(parent);
  if (is_new && mkdirat(parent, base_name, 0755) != 0 && errno != EEXIST) return false;
  cleanup_fd base = openat(parent, base_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (base < 0 || (is_new && !furnish(base))) return false;
  setup->origin = own_group(mount_point);
  char enabled[256];
  if (text_file_read(base, "cgroup.subtree_control", enabled, sizeof enabled) < 0) return false;
  enabled[strcspn(enabled, "\n")] = '\0';
  setup->has[CGROUP_MEMORY] = list_has(enabled, "memory", ' ');
  setup->has[CGROUP_CPU] = list_has(enabled, "cpu", ' ');
  setup->has[CGROUP_PIDS] = list_has(enabled, "pids", ' ');
  setup->has[CGROUP_CPUACCT] = true; /* cpu.stat is there without a controller, and so is the freezer. */
  setup->has[CGROUP_FREEZER] = true;
  snprintf(setup->detail, sizeof setup->detail, "cgroup version 2, %.160s/%s", path, base_name);
  setup->base[0] = take_fd(&base);
  return true;
}

static int write_optional(const struct cgroup_setup *setup, const char *name, const char *file, const char *text) {
  return cgroup_file_write(setup->base[0], name, file, text) == 0 || errno == ENOENT ? 0 : -1;
}

static int limit_v2(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits) {
  char text[64];
  if (setup->has[CGROUP_MEMORY] && limits->memory_bytes > 0) {
    snprintf(text, sizeof text, "%llu", (unsigned long long)limits->memory_bytes);
    if (cgroup_file_write(setup->base[0], name, "memory.max", text) != 0) return -1;
    if (write_optional(setup, name, "memory.swap.max", "0") != 0) return -1; /* Missing without swap accounting. */
  }
  if (setup->has[CGROUP_CPU] && limits->cpu_milli > 0) {
    unsigned long long quota = limits->cpu_milli * (CPU_PERIOD_US / 1000);
    snprintf(text, sizeof text, "%llu %d", quota < 1000 ? 1000 : quota, CPU_PERIOD_US);
    if (cgroup_file_write(setup->base[0], name, "cpu.max", text) != 0) return -1;
  }
  if (!setup->has[CGROUP_PIDS] || limits->pids == 0) return 0;
  snprintf(text, sizeof text, "%llu", (unsigned long long)limits->pids);
  return cgroup_file_write(setup->base[0], name, "pids.max", text);
}

/* `frozen` in cgroup.events follows the write; the kernel announces each change of that file. */
static int freeze_v2(const struct cgroup_setup *setup, const char *name, bool frozen) {
  char events[PATH_MAX];
  snprintf(events, sizeof events, "%s/cgroup.events", name);
  cleanup_fd watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch < 0) return -1;
  (void)inotify_add_watch(watch, fd_path(setup->base[0], events).text, IN_MODIFY);
  if (cgroup_file_write(setup->base[0], name, "cgroup.freeze", frozen ? "1" : "0") != 0) return -1;
  int64_t deadline = now_ms() + FREEZE_MS;
  while (text_file_keyed_number(setup->base[0], events, "frozen") != (frozen ? 1 : 0)) {
    if (now_ms() > deadline) {
      errno = ETIMEDOUT;
      return -1;
    }
    struct pollfd changed = {.fd = watch, .events = POLLIN};
    char drained[512];
    /* At most 50 ms: the watch may be missing where the user's inotify watches are used up. */
    if (poll(&changed, 1, 50) > 0) (void)!read(watch, drained, sizeof drained);
  }
  return 0;
}

static int usage_v2(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage) {
  char path[PATH_MAX];
  int base = setup->base[0];
  snprintf(path, sizeof path, "%s/cpu.stat", name);
  long long cpu_us = text_file_keyed_number(base, path, "usage_usec");
  if (cpu_us < 0) return -1;
  usage->cpu_us = (uint64_t)cpu_us;
  if (setup->has[CGROUP_MEMORY]) {
    if (cgroup_file_number(base, name, "memory.current", &usage->memory_bytes) != 0) return -1;
    snprintf(path, sizeof path, "%s/memory.events", name);
    long long kills = text_file_keyed_number(base, path, "oom_kill");
    usage->oom_kills = kills < 0 ? 0 : (uint64_t)kills;
  }
  return setup->has[CGROUP_PIDS] ? cgroup_file_number(base, name, "pids.current", &usage->pids) : 0;
}

const struct cgroup_kind cgroup_v2 = {
    .prepare = prepare_v2, .limit = limit_v2, .freeze = freeze_v2, .usage = usage_v2};
