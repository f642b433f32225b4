/*
 * System calls that the C libraries we build with do not wrap yet (musl 1.2.3, glibc 2.36 without headers).
 * Numbers above 424 are the same on every architecture.
 */
#ifndef SQUASH_COMMON_SYSCALLS_H
#define SQUASH_COMMON_SYSCALLS_H
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline int sys_pidfd_open(pid_t pid) { return (int)syscall(434, pid, 0); }
static inline int sys_pidfd_send_signal(int pidfd, int signal) {
  return (int)syscall(424, pidfd, signal, NULL, 0);
}
static inline int sys_open_tree(int directory, const char *path, unsigned flags) {
  return (int)syscall(428, directory, path, flags);
}
static inline int sys_move_mount(int from, int to, const char *to_path) {
  return (int)syscall(429, from, "", to, to_path, MOVE_MOUNT_F_EMPTY_PATH);
}
/* The same onto what a descriptor stands for. */
static inline int sys_move_mount_onto(int from, int to) {
  return (int)syscall(429, from, "", to, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}
static inline int sys_fsopen(const char *type) { return (int)syscall(430, type, FSOPEN_CLOEXEC); }
static inline int sys_fsconfig(int context, unsigned command, const char *key, const char *value) {
  return (int)syscall(431, context, command, key, value, 0);
}
static inline int sys_fsmount(int context, unsigned attributes) {
  return (int)syscall(432, context, FSMOUNT_CLOEXEC, attributes);
}
static inline int sys_close_range(unsigned first, unsigned last, unsigned flags) {
  return (int)syscall(436, first, last, flags);
}
static inline int sys_openat2(int directory, const char *path, struct open_how *how) {
  return (int)syscall(437, directory, path, how, sizeof *how);
}
static inline int sys_mount_setattr(int directory, unsigned flags, struct mount_attr *attributes) {
  return (int)syscall(442, directory, "", flags, attributes, sizeof *attributes);
}
/* The ids of a mount that is attached nowhere, as that user namespace has them. */
static inline int sys_map_ids(int mount, int namespace) {
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)namespace};
  return sys_mount_setattr(mount, AT_EMPTY_PATH, &attributes);
}

#endif
