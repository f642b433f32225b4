/*
 * squash-boot: /init of a microVM's initramfs. It makes of a kernel, drives and modules what squash-launch makes of a host, and
 * becomes squash-init: a sandbox whose commands, files and ports work as in any other.
 *
 * Everything here is the guest's: nothing of it protects the host, which the VMM does. Capabilities and read-only settings of the
 * kernel are as in a sandbox all the same, so that whoever is root in it has to break this kernel before the VMM's devices are his.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "boot/drives.h"
#include "boot/failure.h"
#include "boot/host_socket.h"
#include "boot/keeper.h"
#include "boot/modules.h"
#include "boot/network.h"
#include "boot/root.h"
#include "boot/settings.h"
#include "common/capabilities.h"
#include "common/descriptor.h"
#include "common/file.h"

/* PID 1 keeps a descriptor or more per connection; commands get their own, lower limit from it. */
enum { INIT_FILES_MIN = 16384 };

/* On a host it would empty the root directory. */
static bool is_initramfs(void) {
  struct statfs status;
  return getpid() == 1 && statfs("/", &status) == 0 && (status.f_type == RAMFS_MAGIC || status.f_type == TMPFS_MAGIC) &&
         access("/squash-init", F_OK) == 0;
}

static void mount_kernel(const char *type, const char *to) {
  if ((mkdir(to, 0755) != 0 && errno != EEXIST) || mount(type, to, type, MS_NOSUID | MS_NOEXEC, NULL) != 0) {
    boot_fail("mount %s", to);
  }
}

/* Its clock has no other source on every VMM. The kernel has run since the host wrote the time. */
static void set_clock(const struct settings *settings) {
  struct timespec now;
  if (settings->time == 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return;
  now.tv_sec += (time_t)settings->time;
  if (clock_settime(CLOCK_REALTIME, &now) != 0) boot_fail("set the clock");
}

static void write_setting(const char *path, const char *text) {
  cleanup_fd fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write_whole(fd, text, strlen(text)) != 0) boot_fail("write %s", path);
}

/* What is free now but a sixteenth: the kernel and PID 1 are not to fight for it with a command that takes all. */
static unsigned long long commands_memory(void) {
  struct sysinfo memory;
  if (sysinfo(&memory) != 0) boot_fail("read how much memory there is");
  unsigned long long free_bytes = ((unsigned long long)memory.freeram + memory.bufferram) * memory.mem_unit;
  return free_bytes - free_bytes / 16;
}

/*
 * The kernel's own threads do not count in a group. PID 1 and its commands are in two of one, whose limit holds for all: commands can
 * be held still by themselves. Nothing shows where the groups are.
 */
static struct groups {
  int all, commands;
} make_groups(void) {
  static const char *const paths[] = {"/group/sandbox", "/group/sandbox/init", "/group/sandbox/commands"};
  mount_kernel("cgroup2", "/group");
  write_setting("/group/cgroup.subtree_control", "+pids +memory");
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    if (mkdir(paths[i], 0755) != 0) boot_fail("make a control group");
  }
  write_setting("/group/sandbox/cgroup.subtree_control", "+memory");
  write_setting("/group/sandbox/init/cgroup.procs", "0");
  struct groups groups = {open(paths[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC), open(paths[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (groups.all < 0 || groups.commands < 0 || umount2("/group", MNT_DETACH) != 0) boot_fail("leave /group");
  return groups;
}

static void limit_groups(struct groups *groups, const struct settings *settings) {
  bool is_held = settings->pids == 0 || text_file_write_format(groups->all, "pids.max", "%llu", (unsigned long long)settings->pids) == 0;
  is_held = is_held && text_file_write_format(groups->commands, "memory.max", "%llu", commands_memory()) == 0;
  if (!is_held) boot_fail("limit the control groups");
  close_fd(&groups->all);
}

static int open_upper(void) {
  int upper = open("u/data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (upper < 0) boot_fail("open the upper");
  return upper;
}

static void limit_files(const struct settings *settings) {
  rlim_t files = settings->files < INIT_FILES_MIN ? INIT_FILES_MIN : (rlim_t)settings->files;
  const struct rlimit limit = {files, files};
  /* Processes are limited by the group, for all users at once. */
  const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) boot_fail("set resource limits");
}

static int open_init(void) {
  int fd = open("/squash-init", O_RDONLY | O_CLOEXEC);
  if (fd < 0) boot_fail("open squash-init");
  (void)unlink("/squash-init");
  (void)unlink("/init");
  return fd;
}

static _Noreturn void become_init(const int descriptors[5]) {
  char name[] = "squash-init", option[] = "--listen-fd", number[] = "3", guest[] = "--guest";
  char *const words[] = {name, option, number, guest, NULL}, *const environment[] = {NULL};
  if (place_descriptors(descriptors, 5) != 0) boot_fail("place descriptors");
  bool is_less = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && capabilities_keep(machine_capabilities, MACHINE_CAPABILITIES) == 0;
  if (!is_less) boot_fail("drop capabilities");
  (void)execve("/proc/self/fd/7", words, environment);
  boot_fail("execute squash-init");
}

int main(void) {
  struct settings settings = {.lowers = 0};
  if (!is_initramfs()) {
    (void)fputs("squash-boot is the first program of a microVM's initramfs, and of nothing else\n", stderr);
    return 2;
  }
  (void)setsid(); /* It leads one already where the kernel has seen to it. */
  mount_kernel("proc", "/proc");
  mount_kernel("sysfs", "/sys");
  mount_kernel("devtmpfs", "/dev");
  settings_read(&settings);
  set_clock(&settings);
  /* As on a host with memory for many: what bounds commands is their group, which ends them and is told. */
  write_setting("/proc/sys/vm/overcommit_memory", "1");
  modules_load();
  /* What stands above the wait here is done once for all machines that are copied. */
  network_set_up(&settings);
  if (settings.ordered == 0) drives_look();
  root_prepare();
  struct groups groups = make_groups();
  int init = open_init(), listener = -1, asker = -1;
  if (settings.copied != 0) {
    listener = host_socket_listen();
    asker = keeper_wait(listener, &settings);
  }
  if (sethostname(settings.hostname, strlen(settings.hostname)) != 0) boot_fail("set the host name");
  int hosts = root_assemble(&settings);
  int upper = open_upper();
  limit_groups(&groups, &settings);
  limit_files(&settings);
  root_enter();
  if (listener < 0) {
    listener = host_socket_listen();
    if (host_socket_tell() != 0) boot_fail("tell the host");
  } else {
    keeper_answer(asker);
  }
  const int descriptors[] = {listener, upper, groups.commands, hosts, init}; /* init/machine.h */
  become_init(descriptors);
}
