/* The sandbox's root: see root.h. */
#include "boot/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/drives.h"
#include "boot/failure.h"
#include "common/descriptor.h"
#include "common/hosts.h"
#include "common/device_tree.h"
#include "common/mount_points.h"

/* The kernel takes one page of mount options. */
enum { OPTIONS_BYTES_MAX = 4096 };

static void make_directory(const char *path) {
  if (mkdir(path, 0755) != 0 && errno != EEXIST) boot_fail("make %s", path);
}

/* Those that are mounted. */
static unsigned lowers_mounted;
static bool upper_is_mounted;

static struct drive lower_drive(const struct settings *settings, unsigned at, char serial[24]) {
  (void)snprintf(serial, 24, "l%u", at);
  return (struct drive){serial, settings->ordered != 0 ? (int)at : -1};
}

/* Mounts what is not yet. Without `is_last` it gives up at a drive that can't be, and returns. */
static void mount_drives(const struct settings *settings, bool is_last) {
  char serial[24], to[24];
  make_directory("l");
  make_directory("u");
  for (; lowers_mounted < settings->lowers; lowers_mounted++) {
    struct drive drive = lower_drive(settings, lowers_mounted, serial);
    struct drive_mount how = {.to = to, .type = "squashfs", .flags = MS_RDONLY};
    (void)snprintf(to, sizeof to, "l/%u", lowers_mounted);
    make_directory(to);
    if (is_last) drive_mount(&drive, &how);
    else if (drive_mount_try(&drive, &how) != 0) return;
  }
  if (upper_is_mounted) return;
  struct drive drive = {"upper", settings->ordered != 0 ? (int)settings->lowers : -1};
  /* What is deleted gives its room back to the host's file, and tables of inodes that nobody uses take none. */
  struct drive_mount how = {.to = "u", .type = "ext4", .options = "discard,noinit_itable"};
  if (is_last) drive_mount(&drive, &how);
  else if (drive_mount_try(&drive, &how) != 0) return;
  upper_is_mounted = true;
}

void root_begin(const struct settings *settings) {
  static bool is_begun;
  char serial[24];
  struct drive first = lower_drive(settings, 0, serial);
  /* Where drives have no names the way to the host is there from the start, and nobody waits for it. */
  if (is_begun || settings->ordered != 0 || !drive_begins(&first, "hsqs")) return;
  is_begun = true;
  mount_drives(settings, false);
}

/* As native/launch/overlay.c: the marks in an upper are the same for both backends. */
static void mount_overlay(const struct settings *settings) {
  static char options[OPTIONS_BYTES_MAX];
  const char *upper = "u";
  if (settings->reads != 0) {
    /* Whatever lies in a disk, and however full it is, it can be read. */
    upper = "r";
    make_directory("r");
    if (mount("squash", "r", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") != 0) boot_fail("mount /r");
    make_directory("r/data");
    make_directory("r/work");
  }
  int used = snprintf(options, sizeof options, "userxattr,upperdir=%s/data,workdir=%s/work,lowerdir=", upper, upper);
  for (unsigned i = 0; i < settings->lowers && used < OPTIONS_BYTES_MAX; i++) {
    used += snprintf(options + used, sizeof options - (size_t)used, "%sl/%u", i == 0 ? "" : ":", i);
  }
  errno = E2BIG;
  if (used >= OPTIONS_BYTES_MAX) boot_fail("%llu lowers", (unsigned long long)settings->lowers);
  make_directory("root");
  cleanup_fd written = open(upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* Once more for each of two files that a layer has as a directory. */
  for (int tries_left = 2;; tries_left--) {
    if (mount("overlay", "root", "overlay", MS_NODEV | MS_NOSUID, options) != 0) boot_fail("mount the overlay");
    cleanup_fd root = open("root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) boot_fail("open the overlay");
    const char *unmade = mount_points_prepare(root);
    if (unmade == NULL) return;
    bool is_layers = errno == EXDEV && tries_left > 0;
    close_fd(&root);
    if (!is_layers || umount2("root", 0) != 0 || mount_point_cover(written, unmade) != 0) boot_fail("make %s", unmade);
  }
}

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 || write_whole(fd, text, strlen(text)) != 0) boot_fail("write /%s", path);
  return fd;
}

/*
 * The texts of host/src/drivers/namespace/etc-files.ts. Nothing that was prepared is a link, and nobody else runs yet. Returns
 * /etc/hosts, which PID 1 alone can write to.
 */
static int place_etc(const struct settings *settings) {
  char hosts[SETTINGS_TEXT_MAX + 128], names[SETTINGS_TEXT_MAX + 128];
  const char *places[] = {"hosts", "resolv.conf"};
  (void)snprintf(hosts, sizeof hosts, HOSTS_TEXT, settings->hostname);
  if (settings->nameserver[0] == '\0') (void)snprintf(names, sizeof names, "options timeout:1 attempts:1\n");
  else (void)snprintf(names, sizeof names, "nameserver %s\noptions timeout:2 attempts:3\n", settings->nameserver);
  make_directory("etc");
  if (mount("squash", "etc", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k,nr_inodes=16") != 0) boot_fail("mount /etc");
  int hosts_file = write_file("etc/hosts", hosts);
  (void)close(write_file("etc/resolv.conf", names));
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    char from[32], to[32];
    (void)snprintf(from, sizeof from, "etc/%s", places[i]);
    (void)snprintf(to, sizeof to, "root/etc/%s", places[i]);
    if (mount(from, to, NULL, MS_BIND, NULL) != 0) boot_fail("attach /%s", from);
    if (mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0) {
      boot_fail("make /%s read-only", from);
    }
  }
  return hosts_file;
}

static void prepare_devices(void) {
  make_directory("k/dev");
  if (mount("dev", "k/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k,nr_inodes=128") != 0) boot_fail("mount /dev");
  cleanup_fd directory = open("k/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || device_nodes_make(directory) != 0) boot_fail("make device nodes");
  const char *unmade = device_tree_furnish("k/dev");
  if (unmade != NULL) boot_fail("make /dev/%s", unmade);
}

/*
 * Settings of the kernel are read-only, but for those of the network: by others (core_pattern, modprobe) root gets the
 * capabilities back that it has not, and with them the machine's devices.
 */
static void prepare_proc(void) {
  static const char *const settings[] = {"sys", "sysrq-trigger", "irq", "bus", "dynamic_debug"};
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  make_directory("k/proc");
  if (mount("proc", "k/proc", "proc", flags, NULL) != 0) boot_fail("mount /proc");
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    char path[48];
    (void)snprintf(path, sizeof path, "k/proc/%s", settings[i]);
    if (access(path, F_OK) != 0) continue;
    if (mount(path, path, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) != 0) {
      boot_fail("make /proc/%s read-only", settings[i]);
    }
  }
  if (mount("/proc/sys/net", "k/proc/sys/net", NULL, MS_BIND, NULL) != 0) boot_fail("attach /proc/sys/net");
}

/*
 * Volumes and directories of the host, all in one file system that a program beside the VMM serves. What was written here before may
 * have laid links: they are refused, as they are to a sandbox.
 */
static void place_mounts(const struct settings *settings) {
  if (settings->mount_count == 0) return;
  make_directory("m");
  if (mount("mounts", "m", "virtiofs", MS_NOSUID | MS_NODEV, NULL) != 0) boot_fail("mount what the host shares");
  cleanup_fd root = open("root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) boot_fail("open the root");
  for (unsigned i = 0; i < settings->mount_count; i++) {
    const char *target = settings->mounts[i] + 3;
    char from[16], to[32];
    (void)snprintf(from, sizeof from, "m/%u", i);
    cleanup_fd place = mount_point_open(root, target);
    if (place < 0) boot_fail("mount on /%s, which is no directory, or a link is on the way", target);
    (void)snprintf(to, sizeof to, "/proc/self/fd/%d", place);
    if (mount(from, to, NULL, MS_BIND, NULL) != 0) boot_fail("attach /%s", target);
    if (settings->mounts[i][1] == 'w') continue;
    cleanup_fd placed = mount_point_open(root, target);
    (void)snprintf(to, sizeof to, "/proc/self/fd/%d", placed);
    if (placed < 0 || mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0) {
      boot_fail("make /%s read-only", target);
    }
  }
  if (umount2("m", MNT_DETACH) != 0) boot_fail("leave what the host shares");
}

void root_prepare(void) {
  make_directory("k");
  prepare_proc();
  prepare_devices();
}

static void place_prepared(const struct settings *settings) {
  if (mount("k/proc", "root/proc", NULL, MS_MOVE, NULL) != 0) boot_fail("move /proc");
  if (mount("k/dev", "root/dev", NULL, MS_MOVE, NULL) != 0) boot_fail("move /dev");
  if (device_tree_share_memory("root/dev/shm", settings->shm_bytes) != 0) boot_fail("mount /dev/shm");
}

int root_assemble(const struct settings *settings) {
  mount_drives(settings, true);
  /* A new one is empty. */
  make_directory("u/data");
  make_directory("u/work");
  mount_overlay(settings);
  place_prepared(settings);
  int hosts = place_etc(settings);
  place_mounts(settings);
  return hosts;
}

void root_enter(void) {
  static const char *const mounts[] = {"/proc", "/sys", "/dev", "/etc", "/u"};
  /* What is attached below the new root stays, and so do the lowers and the upper in the overlay. */
  for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
    if (umount2(mounts[i], MNT_DETACH) != 0) boot_fail("leave %s", mounts[i]);
  }
  if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0) {
    boot_fail("change the root");
  }
}
