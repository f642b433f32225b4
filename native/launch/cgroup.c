/* Control groups: what both versions share. See cgroup.h. */
#include "launch/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup_kind.h"
#include "launch/clock.h"
#include "launch/file.h"
#include "launch/ids.h"

/* A killed group's processes are reaped within milliseconds; a leftover that is not gone then stays for later. */
enum { SWEEP_MS = 3000 };

static const struct cgroup_kind *kind_of(const struct cgroup_setup *setup) {
  return setup->version == 2 ? &cgroup_v2 : &cgroup_v1;
}

bool list_has(const char *list, const char *word, char separator) {
  size_t length = strlen(word);
  for (const char *part = list; part != NULL; part = strchr(part, separator)) {
    if (*part == separator) part++;
    if (strncmp(part, word, length) == 0 && (part[length] == separator || part[length] == '\0')) return true;
  }
  return false;
}

/* `36 35 98:0 /root /mount rw,noatime shared:1 - type source options` */
bool mount_line_parse(char *line, struct mount_line *mount) {
  char *rest = NULL;
  line[strcspn(line, "\n")] = '\0';
  char *part = strtok_r(line, " ", &rest);
  for (int i = 0; part != NULL && i < 5; i++) {
    if (i == 3) mount->root = part;
    if (i == 4) mount->mount_point = part;
    part = strtok_r(NULL, " ", &rest);
  }
  while (part != NULL && strcmp(part, "-") != 0) part = strtok_r(NULL, " ", &rest);
  if (part == NULL) return false;
  mount->type = strtok_r(NULL, " ", &rest);
  char *source = strtok_r(NULL, " ", &rest);
  mount->options = strtok_r(NULL, " ", &rest);
  return source != NULL && mount->options != NULL;
}

bool cgroup_mount_point(const char *controller, char *path, size_t size) {
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL) return false;
  char line[4096];
  bool found = false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    struct mount_line mount;
    if (!mount_line_parse(line, &mount)) continue;
    found = controller == NULL ? strcmp(mount.type, "cgroup2") == 0
                               : strcmp(mount.type, "cgroup") == 0 && list_has(mount.options, controller, ',');
    if (found) snprintf(path, size, "%s", mount.mount_point);
  }
  fclose(file);
  return found;
}

bool cgroup_own_path(const char *controller, char *path, size_t size) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return false;
  char line[4096];
  bool found = false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *names = strchr(line, ':');
    char *own = names == NULL ? NULL : strchr(names + 1, ':');
    if (own == NULL) continue;
    *own++ = '\0';
    found = controller == NULL ? names[1] == '\0' : list_has(names + 1, controller, ',');
    if (found) snprintf(path, size, "%s", own);
  }
  fclose(file);
  return found;
}

int cgroup_file_write(int base, const char *name, const char *file, const char *text) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", name, file);
  return file_write(base, path, text);
}

int cgroup_file_number(int base, const char *name, const char *file, uint64_t *number) {
  char path[PATH_MAX];
  char text[64];
  snprintf(path, sizeof path, "%s/%s", name, file);
  if (file_read(base, path, text, sizeof text) < 0) return -1;
  *number = strtoull(text, NULL, 10);
  return 0;
}

int cgroup_give_away(int base) {
  static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "tasks"};
  if (geteuid() != 0) return 0;
  if (fchown(base, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) != 0) return -1;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (fchownat(base, files[i], ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, 0) != 0 && errno != ENOENT) return -1;
  }
  return 0;
}

static void kill_listed(int group) {
  if (file_write(group, "cgroup.kill", "1") == 0) return;
  cleanup_fd fd = openat(group, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  if (file == NULL) return;
  (void)take_fd(&fd);
  char line[32];
  while (fgets(line, sizeof line, file) != NULL) {
    pid_t pid = (pid_t)atol(line);
    if (pid > 1 && pid != getpid()) kill(pid, SIGKILL);
  }
  fclose(file);
}

void cgroup_sweep(int base) {
  DIR *entries = fdopendir(openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == NULL) return;
  int64_t deadline = now_ms() + SWEEP_MS;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.' || entry->d_type != DT_DIR) continue;
    while (unlinkat(base, entry->d_name, AT_REMOVEDIR) != 0 && errno == EBUSY && now_ms() < deadline) {
      cleanup_fd group = openat(base, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (group < 0) break;
      (void)file_write(group, "freezer.state", "THAWED"); /* A frozen process of version 1 can't die. */
      kill_listed(group);
      sleep_ms(2);
    }
  }
  closedir(entries);
}

void cgroup_base_name(const char *data, char *name, size_t size) {
  uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a: a name that is stable, not a secret. */
  for (const char *byte = data; *byte != '\0'; byte++) hash = (hash ^ (uint8_t)*byte) * 0x100000001b3U;
  snprintf(name, size, "squash-%016llx", (unsigned long long)hash);
}

void cgroup_prepare(struct cgroup_setup *setup, const char *data) {
  char path[PATH_MAX];
  *setup = (struct cgroup_setup){.version = 0};
  setup->origin = -1;
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) setup->base[i] = -1;
  cgroup_base_name(data, setup->name, sizeof setup->name);
  bool is_first = cgroup_mount_point("memory", path, sizeof path) || cgroup_mount_point("pids", path, sizeof path);
  if ((is_first ? &cgroup_v1 : &cgroup_v2)->prepare(setup, setup->name)) {
    setup->version = is_first ? 1 : 2;
  } else {
    cgroup_setup_close(setup);
  }
}

void cgroup_place_launcher(const struct cgroup_setup *setup, pid_t pid) {
  if (setup->version != 2) return;
  (void)file_write_format(setup->base[0], "launcher/cgroup.procs", "%d", pid);
}

/* The group above takes a process only where it is the top of the machine's hierarchy, as it is for root; the one we
   came from may have gone with its unit, but then its service manager is there, beside us in a group of its own.
   Where none takes us the group stays, for the next start to use. */
static bool leave(const struct cgroup_setup *setup) {
  return file_write(setup->base[0], "../cgroup.procs", "0") == 0 ||
         (setup->origin >= 0 && file_write(setup->origin, "cgroup.procs", "0") == 0) ||
         file_write(setup->base[0], "../init.scope/cgroup.procs", "0") == 0;
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
  if (kind_of(setup)->limit(setup, name, limits) == 0) return 0;
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
    if (file_write_format(setup->base[i], path, "%d", pid) != 0) {
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
    kill_listed(group);
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
