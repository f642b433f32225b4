/* A sandbox inside the sandbox: see nesting.h. */
#include "launch/nesting.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/cgroup_files.h"
#include "common/file.h"

/* Hierarchies of version 1, mounted here or not: they have lines of their own, `4:memory:/group`. */
static bool has_first_version(void) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return true;
  char line[4096];
  bool is_found = false;
  while (!is_found && fgets(line, sizeof line, file) != NULL) is_found = strncmp(line, "0::", 3) != 0;
  fclose(file);
  return is_found;
}

/* Then nobody in another namespace than the machine's first writes a limit of the group that it begins with, nor ends or freezes it. */
static bool delegates(void) {
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL) return false;
  char line[4096];
  bool is_found = false;
  while (!is_found && fgets(line, sizeof line, file) != NULL) {
    struct mount_line mount;
    is_found = mount_line_parse(line, &mount) && strcmp(mount.type, "cgroup2") == 0 && list_has(mount.options, "nsdelegate", ',');
  }
  fclose(file);
  return is_found;
}

/* What he could still do is to make groups below, which would have to be found and removed. */
bool nesting_allows_group_namespaces(const struct cgroup_setup *setup, const char *group) {
  if (setup->version != 2 || has_first_version() || !delegates()) return false;
  return cgroup_file_write(setup->base[0], group, "cgroup.max.descendants", "0") == 0;
}

int nesting_limit_namespaces(struct fault *fault) {
  static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
  char path[64];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    snprintf(path, sizeof path, "proc/sys/user/max_%s_namespaces", kinds[i]);
    if (text_file_write(AT_FDCWD, path, "256") != 0 && errno != ENOENT) {
      return fault_set(fault, "launch_failed", "can't limit the namespaces of the box's programs");
    }
  }
  return 0;
}

/* Before 5.14 an overlay of a directory showed what lies below the mounts in it, whoever had made those (CVE-2021-3732). */
static bool is_old_kernel(void) {
  struct utsname system;
  unsigned major = 0;
  unsigned minor = 0;
  if (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2) return true;
  return major < 5 || (major == 5 && minor < 14);
}

/* AppArmor lets them be made and then refuses all that is done in them. */
int nesting_try(struct fault *fault) {
  int status = 0;
  errno = 0;
  if (is_old_kernel()) return fault_set(fault, "launch_failed", "nesting needs Linux 5.14 or later (without --nesting a box starts)");
  pid_t child = fork();
  if (child == 0) {
    bool is_made = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    _exit(is_made ? 0 : errno);
  }
  if (child < 0) return fault_set(fault, "launch_failed", "can't fork");
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return fault_set(fault, "launch_failed",
                   "nesting can't be had here: user.max_user_namespaces or AppArmor lets no program in a box make namespaces (without --nesting a box starts)");
}

int nesting_use_up_filters(void) {
  enum {
    FILTERS = 7,
    INSTRUCTIONS = BPF_MAXINSNS - 8, /* The kernel puts some before them. */
  };
  static struct sock_filter program[INSTRUCTIONS];
  for (unsigned i = 0; i < INSTRUCTIONS; i++) program[i] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
  program[0] = program[INSTRUCTIONS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog whole = {INSTRUCTIONS, program};
  for (unsigned i = 0; i < FILTERS; i++) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0) return -1;
  }
  return 0;
}
