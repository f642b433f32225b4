/* Runs an image tool locked down: see tool.h. The steps are those of starter.c, for a program that ends. */
#include "launch/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "launch/bubblewrap.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/memory_file.h"
#include "launch/oom.h"
#include "common/syscalls.h"

#define WORK "/tmp"

enum {
  /* The tools' own buffers are set to 256 MiB; the rest is for their tables and the page cache. */
  TOOL_MEMORY_BYTES = 1024 * 1024 * 1024,
  TOOL_PIDS = 256,
  /* Of each processor: three quarters, so that a long pack leaves the daemon and the sandboxes some of every one. */
  TOOL_CPU_MILLI_EACH = 750,
  /* A layer of some gigabytes packs in minutes. */
  TOOL_MS_MAX = 30 * 60 * 1000,
  WATCH_MS = 200,
  EARLY_MS = 5,
  EARLY_BYTES = 8 * 1024 * 1024,
};

static const char *const capabilities[] = {"CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH",
                                           "CAP_FOWNER", "CAP_FSETID",       "CAP_SETFCAP"};

/* A link on the way is the daemon's or a sandbox's word: none is followed. */
static int attach(int directory, const char *path, const char *to) {
  struct stat status;
  cleanup_fd from = open_beneath(directory, path, O_PATH);
  if (from < 0 || fstat(from, &status) != 0) return -1;
  if (S_ISDIR(status.st_mode)) {
    if (mkdir(to, 0755) != 0) return -1;
  } else {
    cleanup_fd place = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (place < 0) return -1;
  }
  return mount(fd_path(from, "").text, to, NULL, MS_BIND, NULL);
}

/* Input and output below WORK, as long as we may walk the data directory. */
static int gather(const struct tool *tool) {
  if (fchdir(tool->launcher->data_fd) != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("squash", WORK, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k,nr_inodes=64") != 0) {
    return -1;
  }
  int input = AT_FDCWD; /* The data directory's descriptor is of the namespace we have left, whose mounts can't be bound here. */
  cleanup_fd mounted = -1;
  if (tool->input_mount >= 0) {
    if (mkdir(WORK "/mount", 0755) != 0 || sys_move_mount(tool->input_mount, AT_FDCWD, WORK "/mount") != 0) return -1;
    mounted = open(WORK "/mount", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (mounted < 0) return -1;
    input = mounted;
  }
  if (attach(input, tool->input, WORK "/in") != 0) return -1;
  if (tool->output != NULL) return attach(AT_FDCWD, tool->output, WORK "/out");
  return mkdir(WORK "/out", 0755) != 0 ? -1 : sys_move_mount(tool->output_mount, AT_FDCWD, WORK "/out");
}

/* While the daemon's id may still open its own file. */
static int read_input(void) {
  cleanup_fd input = open(WORK "/in", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  return input < 0 || dup2(input, 0) < 0 ? -1 : 0;
}

/* Where /bin and /lib are links into /usr they are made as such, else the host's directories are shown. */
static void add_host_tree(struct words *words) {
  static const char *const names[] = {"bin", "lib", "lib64", "sbin"};
  words_add_format(words, "--ro-bind");
  words_add(words, "/usr");
  words_add(words, "/usr");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[16];
    char target[64];
    snprintf(path, sizeof path, "/%s", names[i]);
    ssize_t length = readlink(path, target, sizeof target - 1);
    struct stat status;
    if (length < 0 && stat(path, &status) != 0) continue;
    words_add(words, length > 0 ? "--symlink" : "--ro-bind");
    words_add_format(words, "%.*s", length > 0 ? (int)length : (int)strlen(path), length > 0 ? target : path);
    words_add_format(words, "%s", path);
  }
  words_add(words, "--ro-bind-try");
  words_add(words, "/etc/ld.so.cache");
  words_add(words, "/etc/ld.so.cache");
}

static void build(struct words *words, const struct tool *tool) {
  static const char *const fixed[] = {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
                                      "--die-with-parent", "--new-session", "--dev", "/dev", "--ro-bind", WORK "/in",
                                      "/in", "--bind", WORK "/out", "/out", "--chdir", "/", "--seccomp", "3",
                                      "--cap-drop", "ALL"};
  words_add(words, tool->launcher->bwrap);
  add_host_tree(words);
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) words_add(words, fixed[i]);
  for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
    words_add(words, "--cap-add");
    words_add(words, capabilities[i]);
  }
  words_add(words, "--");
  for (const char *const *word = tool->words; *word != NULL; word++) words_add(words, *word);
}

static int limit(const struct tool *tool) {
  rlim_t bytes = tool->file_bytes_max == 0 ? RLIM_INFINITY : (rlim_t)tool->file_bytes_max;
  const struct rlimit file = {bytes, bytes};
  struct rlimit core;
  const struct rlimit seconds = {2 * TOOL_MS_MAX / 1000, 2 * TOOL_MS_MAX / 1000};
  if (getrlimit(RLIMIT_CORE, &core) != 0) return -1;
  core.rlim_cur = core.rlim_max = core.rlim_max < 1 ? core.rlim_max : 1; /* As in a sandbox: starter.c. */
  if (setrlimit(RLIMIT_FSIZE, &file) != 0 || setrlimit(RLIMIT_CORE, &core) != 0) return -1;
  return setrlimit(RLIMIT_CPU, &seconds);
}

static _Noreturn void child_main(const struct tool *tool, const char *group, int control, int output) {
  struct fault fault = {0};
  char byte;
  struct words words = {0};
  char *const none[] = {NULL};
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  setsid();
  oom_raise(OOM_TOOL);
  umask(022);
  if (null < 0 || dup2(tool->piped_input > 0 ? tool->piped_input : null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(120);
  if (cgroup_join(&tool->launcher->cgroups, group, &fault) != 0) _exit(121);
  if (gather(tool) != 0 || (tool->input_as_stdin && read_input() != 0)) _exit(122);
  if (limit(tool) != 0 || become_inner_id(sandbox_root_id(tool->launcher), &fault) != 0) _exit(123);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) != 0) _exit(124);
  if (write_whole(control, "m", 1) != 0 || read_whole(control, &byte, 1) != 1) _exit(125);
  build(&words, tool);
  int seccomp = memory_file_reopen(tool->launcher->tool_seccomp_fd);
  if (words.overflowed || place_descriptors(&seccomp, 1) != 0) _exit(126);
  union {
    const char *const *words;
    char *const *arguments;
  } list = {.words = words.list};
  execve(tool->launcher->bwrap, list.arguments, tool->environment != NULL ? tool->environment : none);
  _exit(127);
}

static int write_maps(const struct tool *tool, pid_t child, int control) {
  char byte;
  char path[64];
  const char *map = tool->launcher->is_single ? "0 0 1\n" : "0 1 65536\n";
  if (read_whole(control, &byte, 1) != 1) return -1;
  snprintf(path, sizeof path, "/proc/%d/setgroups", child);
  if (tool->launcher->is_single) (void)text_file_write(AT_FDCWD, path, "deny");
  snprintf(path, sizeof path, "/proc/%d/gid_map", child);
  if (text_file_write(AT_FDCWD, path, map) != 0) return -1;
  snprintf(path, sizeof path, "/proc/%d/uid_map", child);
  return text_file_write(AT_FDCWD, path, map) == 0 ? write_whole(control, "k", 1) : -1;
}

static void keep_output(struct tool *tool, const char *bytes, size_t length) {
  size_t room = sizeof tool->says - 1 - tool->says_bytes;
  tool->said_more |= length > room;
  if (length > room) length = room;
  memcpy(tool->says + tool->says_bytes, bytes, length);
  tool->says_bytes += (unsigned)length;
  tool->says[tool->says_bytes] = '\0';
}

/* How far a file has been sent to the disk. */
struct early {
  int file;
  off_t sent;
};

/* Starts what `fsync` would wait for at the end, a window at a time: a disk that is slower than the tool must not hold up
   who looks after the tool. The tool may have put anything there, and at first there is nothing. */
static void write_early(const struct tool *tool, struct early *early) {
  struct stat status;
  if (early->file < 0) {
    cleanup_fd output = open_beneath(tool->launcher->data_fd, tool->output, O_RDONLY | O_DIRECTORY);
    early->file = output < 0 ? -1 : open_inside(output, tool->written_early, O_WRONLY | O_NONBLOCK);
  }
  if (early->file < 0 || fstat(early->file, &status) != 0) return;
  off_t length = status.st_size - early->sent;
  if (length > EARLY_BYTES) length = EARLY_BYTES;
  if (length <= 0 || sync_file_range(early->file, early->sent, length, SYNC_FILE_RANGE_WRITE) != 0) return;
  early->sent += length;
}

/* Reads what the tool says until it closes its output; ends it where the watch or the clock says so. */
static int supervise(struct tool *tool, int output, struct early *early, struct fault *fault) {
  int64_t deadline = now_ms() + TOOL_MS_MAX;
  int64_t watch_at = now_ms() + WATCH_MS;
  for (;;) {
    struct pollfd readable = {.fd = output, .events = POLLIN};
    char bytes[4096];
    if (tool->written_early != NULL) write_early(tool, early);
    if (poll(&readable, 1, tool->written_early != NULL ? EARLY_MS : WATCH_MS) > 0) {
      ssize_t got = read(output, bytes, sizeof bytes);
      if (got == 0) return 0;
      if (got > 0) keep_output(tool, bytes, (size_t)got);
    }
    int64_t now = now_ms();
    errno = ETIMEDOUT;
    if (now > deadline) return fault_set(fault, "launch_failed", "%s did not end", tool->words[0]);
    if (now < watch_at) continue;
    watch_at = now + WATCH_MS;
    if (tool->goes_on != NULL && !tool->goes_on(tool->context, fault)) return -1;
  }
}

int tool_run(struct tool *tool, struct fault *fault) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const struct cgroup_limits limits = {.memory_bytes = TOOL_MEMORY_BYTES,
                                       .cpu_milli = TOOL_CPU_MILLI_EACH * (uint64_t)(processors < 1 ? 1 : processors),
                                       .pids = TOOL_PIDS};
  const struct cgroup_setup *groups = &tool->launcher->cgroups;
  char group[CGROUP_NAME_BYTES];
  int control[2];
  int output[2];
  errno = 0;
  if (tool->launcher->bwrap == NULL) return fault_set(fault, "launch_failed", "bubblewrap is not installed");
  snprintf(group, sizeof group, "t%d", getpid());
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0 || pipe2(output, O_CLOEXEC) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  cleanup_fd own = control[0];
  cleanup_fd other = control[1];
  cleanup_fd reader = output[0];
  cleanup_fd writer = output[1];
  if (cgroup_create(groups, group, &limits, fault) != 0) return -1;
  pid_t child = fork();
  if (child == 0) child_main(tool, group, other, writer);
  close_fd(&other);
  close_fd(&writer);
  int result = child < 0 ? fault_set(fault, "launch_failed", "can't fork") : 0;
  if (result == 0) {
    (void)write_maps(tool, child, own); /* Where it fails the child ends, and its status says where. */
    struct early early = {.file = -1};
    result = supervise(tool, reader, &early, fault);
    close_fd(&early.file);
    if (result != 0) {
      cgroup_kill(groups, group);
      kill(child, SIGKILL); /* bubblewrap dies, and everything in its pid namespace with it. */
    }
    while (waitpid(child, &tool->status, 0) < 0 && errno == EINTR) continue;
  }
  for (int tries = 500; cgroup_remove(groups, group) != 0 && tries > 0; tries--) sleep_ms(2);
  return result;
}
