/*
 * bubblewrap's command line for a sandbox: see bubblewrap.h.
 *
 * Capabilities: what container engines leave by default, without the three that only reach outwards. CAP_NET_RAW
 * would allow packets of any form on interfaces that come later; CAP_MKNOD is without effect in a user namespace;
 * CAP_AUDIT_WRITE writes into the host's audit log. All of them count in the sandbox's own user namespace only.
 */
#include "launch/bubblewrap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/memory_file.h"

static const char *const capabilities[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",           "CAP_KILL",       "CAP_SETGID",
    "CAP_SETUID", "CAP_SETPCAP",      "CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
};

enum placed { PLACED_LISTEN = 3, PLACED_INIT, PLACED_HOSTS, PLACED_RESOLV, PLACED_SECCOMP, PLACED_INFO, PLACED_END };

void words_add(struct words *words, const char *word) {
  if (words->count == WORDS_MAX) {
    words->overflowed = true;
    return;
  }
  words->list[words->count++] = word;
  words->list[words->count] = NULL;
}

void words_add_format(struct words *words, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *at = words->text + words->used;
  int length = vsnprintf(at, sizeof words->text - words->used, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof words->text - words->used) {
    words->overflowed = true;
    return;
  }
  words->used += (unsigned)length + 1;
  words_add(words, at);
}

int place_descriptors(const int *descriptors, int count) {
  int high[16];
  if (count > 16) return -1;
  /* First out of the way of the places, then into them. */
  for (int i = 0; i < count; i++) {
    high[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 64);
    if (high[i] < 0) return -1;
  }
  for (int i = 0; i < count; i++) {
    if (dup2(high[i], 3 + i) < 0) return -1;
  }
  return 0;
}

/* The reading end of a pipe that holds the text; the text is smaller than a pipe. */
static int pipe_with(const char *text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  return write_whole(writer, text, strlen(text)) == 0 ? take_fd(&reader) : -1;
}

static void add_all(struct words *words, const char *const *list) {
  for (; *list != NULL; list++) words_add(words, *list);
}

/*
 * What container engines hide below /proc, and what else there tells of the machine or takes from it: triggers of
 * /proc/pressure make the kernel work and keep their holder from ending. Settings and the rest that bubblewrap finds
 * writable it makes read-only. The starter's /proc has the same names: they are the kernel's, not a process's.
 */
static void add_masks(struct words *words) {
  static const char *const masked[] = {"/proc/acpi",       "/proc/asound",      "/proc/fs",          "/proc/pressure",
                                       "/proc/scsi",       "/proc/interrupts",  "/proc/softirqs",    "/proc/kcore",
                                       "/proc/key-users",  "/proc/keys",        "/proc/latency_stats", "/proc/sched_debug",
                                       "/proc/timer_list", "/proc/timer_stats"};
  for (size_t i = 0; i < sizeof masked / sizeof masked[0]; i++) {
    struct stat status;
    if (stat(masked[i], &status) != 0) continue; /* Not in this kernel. */
    words_add(words, "--ro-bind");
    words_add(words, S_ISDIR(status.st_mode) ? "/tmp/empty" : "/tmp/nothing");
    words_add(words, masked[i]);
  }
}

static void build(struct words *words, const struct launcher *launcher, const struct starter_plan *plan) {
  static const char *const namespaces[] = {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
                                           "--hostname", NULL};
  /* bwrap makes them 0600 otherwise, and who is not root inside (apt's own user) could resolve nothing. */
  static const char *const readable_data[] = {"--perms", "0644", "--ro-bind-data", NULL};
  static const char *const tree[] = {"--bind", "/tmp/root", "/", "--proc", "/proc", "--dev-bind", "/tmp/dev", "/dev", NULL};
  words_add(words, launcher->bwrap);
  add_all(words, namespaces);
  words_add(words, plan->request->hostname);
  add_all(words, tree);
  add_masks(words);
  add_all(words, readable_data);
  words_add_format(words, "%d", PLACED_HOSTS);
  words_add(words, "/etc/hosts");
  add_all(words, readable_data);
  words_add_format(words, "%d", PLACED_RESOLV);
  words_add(words, "/etc/resolv.conf");
  words_add(words, "--cap-drop");
  words_add(words, "ALL");
  for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
    words_add(words, "--cap-add");
    words_add(words, capabilities[i]);
  }
  words_add(words, "--seccomp");
  words_add_format(words, "%d", PLACED_SECCOMP);
  words_add(words, "--info-fd");
  words_add_format(words, "%d", PLACED_INFO);
  words_add(words, "--new-session");
  words_add(words, "--as-pid-1");
  words_add(words, "--chdir");
  words_add(words, "/");
  words_add(words, "--");
  words_add_format(words, "/proc/self/fd/%d", PLACED_INIT);
  words_add(words, "--listen-fd");
  words_add_format(words, "%d", PLACED_LISTEN);
}

int bubblewrap_exec(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault) {
  struct words words = {0};
  build(&words, launcher, plan);
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int descriptors[] = {plan->listen_fd,
                             launcher->init_fd,
                             pipe_with(plan->request->hosts),
                             pipe_with(plan->request->resolv_conf),
                             memory_file_reopen(launcher->seccomp_fd),
                             plan->info_fd};
  errno = 0;
  if (words.overflowed) return fault_set(fault, "launch_failed", "bubblewrap's command line is too long");
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
      dup2(plan->error_fd, STDERR_FILENO) < 0 || place_descriptors(descriptors, PLACED_END - PLACED_LISTEN) != 0) {
    return fault_set(fault, "launch_failed", "can't place the descriptors of a start");
  }
  char *const environment[] = {NULL};
  union {
    const char *const *words;
    char *const *arguments;
  } list = {.words = words.list}; /* execve takes what it never changes without const. */
  execve(launcher->bwrap, list.arguments, environment);
  return fault_set(fault, "launch_failed", "can't execute \"%s\"", launcher->bwrap);
}
