/* Control groups, whichever version there is: see cgroup.h. */
#include "launch/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup_files.h"
#include "launch/cgroup_kind.h"
#include "common/file.h"

static const struct cgroup_kind *kind_of(const struct cgroup_setup *setup) {
  return setup->version == 2 ? &cgroup_v2 : &cgroup_v1;
}

void cgroup_base_name(const char *data, char *name, size_t size) {
  uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a: a name that is stable, not a secret. */
  for (const char *byte = data; *byte != '\0'; byte++) hash = (hash ^ (uint8_t)*byte) * 0x100000001b3U;
  snprintf(name, size, "squash-%016llx", (unsigned long long)hash);
}

static void prepare(struct cgroup_setup *setup, const char *data, bool is_new) {
  char path[PATH_MAX];
  *setup = (struct cgroup_setup){.version = 0};
  setup->origin = -1;
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) setup->base[i] = -1;
  cgroup_base_name(data, setup->name, sizeof setup->name);
  bool is_first = cgroup_mount_point("memory", path, sizeof path) || cgroup_mount_point("pids", path, sizeof path);
  if ((is_first ? &cgroup_v1 : &cgroup_v2)->prepare(setup, setup->name, is_new)) {
    setup->version = is_first ? 1 : 2;
  } else {
    cgroup_setup_close(setup);
  }
}

void cgroup_prepare(struct cgroup_setup *setup, const char *data) { prepare(setup, data, true); }

void cgroup_find(struct cgroup_setup *setup, const char *data) { prepare(setup, data, false); }

void cgroup_place_launcher(const struct cgroup_setup *setup, pid_t pid) {
  if (setup->version != 2) return;
  (void)text_file_write_format(setup->base[0], "launcher/cgroup.procs", "%d", pid);
}

/* The group above takes a process only where it is the top of the machine's hierarchy, as it is for root; the one we
   came from may have gone with its unit, but then its service manager is there, beside us in a group of its own.
   Where none takes us the group stays, for the next start to use. */
static bool leave(const struct cgroup_setup *setup) {
  return text_file_write(setup->base[0], "../cgroup.procs", "0") == 0 ||
         (setup->origin >= 0 && text_file_write(setup->origin, "cgroup.procs", "0") == 0) ||
         text_file_write(setup->base[0], "../init.scope/cgroup.procs", "0") == 0;
}

void cgroup_dissolve(const struct cgroup_setup *setup) {
  /* Sweeping a group with ourselves in it would be the end of us. */
  if (setup->version == 2 && !leave(setup)) return;
  for (int i = CGROUP_CONTROLLERS - 1; i >= 0; i--) {
    if (setup->base[i] < 0) continue;
    cgroup_sweep(setup->base[i]);
    cleanup_fd parent = openat(setup->base[i], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) (void)unlinkat(parent, setup->name, AT_REMOVEDIR);
  }
}

void cgroup_setup_close(struct cgroup_setup *setup) {
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) close_fd(&setup->base[i]);
  close_fd(&setup->origin);
}

int cgroup_create(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits,
                  struct fault *fault) {
  if (setup->version == 0) return 0;
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    if (setup->base[i] < 0) continue;
    if (mkdirat(setup->base[i], name, 0755) != 0 && errno != EEXIST) {
      return fault_set(fault, "launch_failed", "can't make control group \"%s\"", name);
    }
  }
  return cgroup_limit(setup, name, limits, fault);
}

int cgroup_limit(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits,
                 struct fault *fault) {
  if (setup->version == 0 || kind_of(setup)->limit(setup, name, limits) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't set the limits of control group \"%s\"", name);
}

int cgroup_join(const struct cgroup_setup *setup, const char *name, struct fault *fault) {
  /* Version 1: "0" in the file for single threads needs no lock over all forks of the machine, whose first taker waits
     for an RCU grace period (measured: 8 ms against 0.04). We have one thread, so both files mean the same. */
  const char *file = setup->version == 1 ? "tasks" : "cgroup.procs";
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    if (setup->base[i] < 0) continue;
    if (cgroup_file_write(setup->base[i], name, file, "0") != 0) {
      return fault_set(fault, "launch_failed", "can't join control group \"%s\"", name);
    }
  }
  return 0;
}

int cgroup_place(const struct cgroup_setup *setup, const char *name, pid_t pid, struct fault *fault) {
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    char path[CGROUP_NAME_BYTES + 16];
    if (setup->base[i] < 0) continue;
    snprintf(path, sizeof path, "%s/cgroup.procs", name);
    if (text_file_write_format(setup->base[i], path, "%d", pid) != 0) {
      return fault_set(fault, "launch_failed", "can't put process %d into control group \"%s\"", pid, name);
    }
  }
  return 0;
}

int cgroup_freeze(const struct cgroup_setup *setup, const char *name, bool frozen) {
  return kind_of(setup)->freeze(setup, name, frozen);
}

int cgroup_usage(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage) {
  *usage = (struct cgroup_usage){0};
  return setup->version == 0 ? 0 : kind_of(setup)->usage(setup, name, usage);
}

void cgroup_kill(const struct cgroup_setup *setup, const char *name) {
  for (int i = CGROUP_CONTROLLERS - 1; i >= 0; i--) {
    if (setup->base[i] < 0) continue;
    cleanup_fd group = openat(setup->base[i], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (group < 0) continue;
    cgroup_kill_listed(group);
    return; /* Every process of a group is in all its hierarchies. */
  }
}

int cgroup_remove(const struct cgroup_setup *setup, const char *name) {
  int result = 0;
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    if (setup->base[i] < 0) continue;
    if (unlinkat(setup->base[i], name, AT_REMOVEDIR) != 0 && errno != ENOENT) result = -1;
  }
  return result;
}
