/* Mounting, with the old call and the new ones, and what would follow from it. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *mount_point(void) {
  static char path[] = "/tmp/attack-mount-XXXXXX";
  return mkdtemp(path);
}

/* `mount TYPE [OPTIONS]`: a new file system of this type. */
static int mount_new(int argc, char **argv) {
  if (argc < 2) return 2;
  const char *where = mount_point();
  if (where == NULL) return untried("mkdtemp: %s", strerror(errno));
  long result = mount(argv[1], where, argv[1], 0, argc > 2 ? argv[2] : NULL);
  int error = errno;
  if (result == 0) umount2(where, MNT_DETACH);
  rmdir(where);
  errno = error;
  return refused("mount", result);
}

static int mount_bind(int argc, char **argv) {
  if (argc < 2) return 2;
  const char *where = mount_point();
  if (where == NULL) return untried("mkdtemp: %s", strerror(errno));
  long result = mount(argv[1], where, NULL, MS_BIND | MS_REC, NULL);
  int error = errno;
  if (result == 0) umount2(where, MNT_DETACH);
  rmdir(where);
  errno = error;
  return refused("bind", result);
}

static int remount_writable(int argc, char **argv) {
  if (argc < 2) return 2;
  return refused("remount", mount(NULL, argv[1], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int make_shared(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("propagation", mount(NULL, "/", NULL, MS_SHARED, NULL));
}

/* A mask over a file of /proc that can be taken off again is none. */
static int unmount(int argc, char **argv) {
  if (argc < 2) return 2;
  return refused("umount", umount2(argv[1], MNT_DETACH));
}

static int pivot(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("pivot_root", syscall(SYS_pivot_root, ".", "."));
}

static int open_file_system(int argc, char **argv) {
  return refused("fsopen", syscall(430, argc > 1 ? argv[1] : "tmpfs", 0));
}

static int clone_tree(int argc, char **argv) {
  return refused("open_tree", syscall(428, AT_FDCWD, argc > 1 ? argv[1] : "/", 1 /* OPEN_TREE_CLONE */));
}

static int move_tree(int argc, char **argv) {
  (void)argc, (void)argv;
  int top = open("/", O_PATH | O_DIRECTORY);
  return refused("move_mount", syscall(429, top, "", AT_FDCWD, "/tmp", 4 /* F_EMPTY_PATH */));
}

static int pick_file_system(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("fspick", syscall(433, AT_FDCWD, "/", 0));
}

static int configure_file_system(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("fsconfig", syscall(431, -1, 6, NULL, NULL, 0));
}

static int mount_file_system(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("fsmount", syscall(432, -1, 0, 0));
}

static int set_mount_attributes(int argc, char **argv) {
  (void)argc, (void)argv;
  struct {
    uint64_t set, clear, propagation, namespace;
  } attributes = {.clear = 1 /* MOUNT_ATTR_RDONLY */};
  return refused("mount_setattr", syscall(442, AT_FDCWD, "/proc", 0, &attributes, sizeof attributes));
}

const struct attack mount_attacks[] = {
    {"mount", mount_new},
    {"mount-bind", mount_bind},
    {"remount", remount_writable},
    {"make-shared", make_shared},
    {"umount", unmount},
    {"pivot-root", pivot},
    {"fsopen", open_file_system},
    {"open-tree", clone_tree},
    {"move-mount", move_tree},
    {"fspick", pick_file_system},
    {"fsconfig", configure_file_system},
    {"fsmount", mount_file_system},
    {"mount-setattr", set_mount_attributes},
    {0},
};
