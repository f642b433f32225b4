/* Control groups as files: see cgroup_files.h. */
#include "launch/cgroup_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/ids.h"

/* A killed group's processes are reaped within milliseconds; a leftover that is not gone then stays for later. */
enum { SWEEP_MS = 3000 };

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
  return text_file_write(base, path, text);
}

int cgroup_file_number(int base, const char *name, const char *file, uint64_t *number) {
  char path[PATH_MAX];
  char text[64];
  snprintf(path, sizeof path, "%s/%s", name, file);
  if (text_file_read(base, path, text, sizeof text) < 0) return -1;
  *number = strtoull(text, NULL, 10);
  return 0;
}

int cgroup_give_away(int base) {
  static const char *const files[] = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "tasks"};
  if (!is_root_of_range()) return 0;
  if (fchown(base, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) != 0) return -1;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (fchownat(base, files[i], ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, 0) != 0 && errno != ENOENT) return -1;
  }
  return 0;
}

void cgroup_kill_listed(int group) {
  if (text_file_write(group, "cgroup.kill", "1") == 0) return;
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
      (void)text_file_write(group, "freezer.state", "THAWED"); /* A frozen process of version 1 can't die. */
      cgroup_kill_listed(group);
      sleep_ms(2);
    }
  }
  closedir(entries);
}
