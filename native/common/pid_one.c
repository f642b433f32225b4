/*
 * PID 1's beginning and end: see pid_one.h.
 *
 * The start drops capabilities from the permitted set alone. The bounding set is narrowed to it here, and the
 * inheritable and ambient sets are emptied, so that no command finds a capability that its own user did not have:
 * no_new_privs says the same, this holds without it. stderr leads to the launcher until now; commands get their own.
 */
#include "common/pid_one.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"

int pid_one_listen_descriptor(const char *word) {
  char *end;
  long number = strtol(word, &end, 10);
  return *end != '\0' || number < 3 || number > 1048576 ? -1 : (int)number;
}

/* It touches its tables here and there, and there are many of it: it has the pages that it touches, also where the machine gives larger ones. */
static void stay_small(void) {
  extern char __bss_start[], _end[];
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = (uintptr_t)__bss_start & ~(page - 1);
  (void)madvise((void *)from, (uintptr_t)_end - from, MADV_NOHUGEPAGE); /* Refused by a kernel without them. */
}

int pid_one_clean(int listen_fd, int first) {
  stay_small();
  for (int fd = 0; fd < 3; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return -1;
  }
  if (listen_fd != 3) {
    if (dup2(listen_fd, 3) < 0) return -1;
  }
  close_from(first);
  for (int signo = 1; signo < NSIG; signo++) (void)signal(signo, SIG_DFL); /* Fails for KILL and STOP only. */
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  (void)umask(022);
  /* Too little for any core file; and of exactly 1 the kernel starts no handler where the host has one (core_pattern with a
     bar), which it does with 0. It fails where less is allowed already, and lowering is always allowed. */
  struct rlimit no_core = {1, 1};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* Without it fewer commands fit, and those past are refused. */
  }
  return getpid() == 1 ? 0 : prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

int pid_one_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  if (getpid() != 1) {
    /* PID 1 must not wait for these: blocked, they would reach it from inside, where the kernel else drops them. */
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
  }
  cleanup_fd fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return -1;
  sigaddset(&set, SIGPIPE); /* Stays pending and harmless; a handler or SIG_IGN would be inherited by commands. */
  return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? take_fd(&fd) : -1;
}

static bool is_confined;

static int confine_capabilities(bool keeps_capabilities) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return -1;
  for (unsigned i = 0; i < 2 && !keeps_capabilities; i++) data[i].permitted = data[i].effective = 0;
  /* The kernel answers EINVAL past its last capability. */
  for (unsigned capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
    if ((data[capability / 32].permitted & UINT32_C(1) << capability % 32) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability) != 0) return -1;
  }
  data[0].inheritable = 0;
  data[1].inheritable = 0;
  return (int)syscall(SYS_capset, &header, data); /* What is not inheritable can't stay ambient. */
}

int pid_one_confine(void) {
  if (getpid() != 1) return 0;
  is_confined = true;
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || confine_capabilities(true) != 0) return -1;
  for (int fd = 0; fd < 3; fd++) {
    if (dup2(null, fd) < 0) return -1;
  }
  return 0;
}

int pid_one_disarm(void) { return is_confined ? confine_capabilities(false) : 0; }

void pid_one_child_goes_first(void) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY); /* With O_CLOEXEC musl has a second call for it. */
  if (fd < 0) return;
  /* Refused where the score is higher already, and then there is nothing to do. */
  ssize_t ignored = write(fd, "500", 3);
  (void)ignored;
  (void)close(fd);
}

/* Ends the children of one of our threads, and returns how many there were. */
static int end_children_of(const char *thread) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
  FILE *children = fopen(path, "re");
  if (children == NULL) return 0;
  int pid, found = 0;
  while (fscanf(children, "%d", &pid) == 1) {
    found++;
    (void)kill(pid, SIGKILL); /* An unreaped child: the number is its own. */
  }
  (void)fclose(children);
  return found;
}

void pid_one_end_descendants(void) {
  for (int found = 1; found > 0;) {
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL) return;
    found = 0;
    for (const struct dirent *thread; (thread = readdir(threads)) != NULL;) found += end_children_of(thread->d_name);
    (void)closedir(threads);
    if (found > 0) (void)waitpid(-1, NULL, 0);
  }
}
