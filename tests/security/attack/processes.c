/* Processes outside: seeing, signalling, tracing and slowing them down. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Inside, the victim's number means nobody, or one of our own. */
static pid_t victim(int argc, char **argv) { return argc > 1 ? (pid_t)count_of(argv[1]) : 0; }

static int gone_or_refused(const char *what, long result) {
  if (result < 0 && errno == ESRCH) return held("%s: no such process", what);
  return refused(what, result);
}

static int signal_victim(int argc, char **argv) {
  return gone_or_refused("kill", kill(victim(argc, argv), 0));
}

static int queue_signal(int argc, char **argv) {
  siginfo_t information = {.si_code = SI_QUEUE};
  return gone_or_refused("sigqueue", syscall(SYS_rt_sigqueueinfo, victim(argc, argv), 0, &information));
}

static int pidfd_signal(int argc, char **argv) {
  int process = (int)syscall(434, victim(argc, argv), 0);
  if (process < 0) return gone_or_refused("pidfd_open", -1);
  return gone_or_refused("pidfd_send_signal", syscall(424, process, 0, NULL, 0));
}

static int trace_victim(int argc, char **argv) {
  pid_t pid = victim(argc, argv);
  long result = ptrace(PTRACE_SEIZE, pid, 0, 0);
  return gone_or_refused("ptrace", result);
}

static int read_victim(int argc, char **argv) {
  char byte = 0;
  struct iovec here = {&byte, 1};
  struct iovec there = {(void *)0x400000, 1}; /* Any address: EFAULT would come from behind the wall. */
  return gone_or_refused("process_vm_readv", process_vm_readv(victim(argc, argv), &here, 1, &there, 1, 0));
}

static int open_victim(int argc, char **argv) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", victim(argc, argv));
  return unopened(path, O_RDONLY);
}

static int limit_victim(int argc, char **argv) {
  struct rlimit limit;
  return gone_or_refused("prlimit", prlimit(victim(argc, argv), RLIMIT_NOFILE, NULL, &limit));
}

static int slow_victim(int argc, char **argv) {
  return gone_or_refused("setpriority", setpriority(PRIO_PROCESS, (id_t)victim(argc, argv), 19));
}

static int pin_victim(int argc, char **argv) {
  cpu_set_t processors;
  pid_t pid = victim(argc, argv);
  if (sched_getaffinity(pid, sizeof processors, &processors) != 0) return gone_or_refused("affinity", -1);
  return gone_or_refused("sched_setaffinity", sched_setaffinity(pid, sizeof processors, &processors));
}

/* Looks for a word in every command line that /proc shows, except our own. */
static int find_process(int argc, char **argv) {
  if (argc < 2) return 2;
  DIR *processes = opendir("/proc");
  if (processes == NULL) return untried("no /proc");
  for (struct dirent *entry = readdir(processes); entry != NULL; entry = readdir(processes)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || atoi(entry->d_name) == getpid()) continue;
    char path[300];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
    int file = open(path, O_RDONLY);
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text);
    if (file >= 0) close(file);
    if (got > 0 && memmem(text, (size_t)got, argv[1], strlen(argv[1])) != NULL) {
      /* The shell that started us has the word in its own line. */
      if (atoi(entry->d_name) != getppid()) return breach("process %s is visible", entry->d_name);
    }
  }
  return held("no such process is visible");
}

/* A real-time or raised priority starves whoever shares the processor. */
static int raise_priority(int argc, char **argv) {
  (void)argc, (void)argv;
  if (setpriority(PRIO_PROCESS, 0, -20) == 0) return breach("took nice -20");
  return held("nice -20: %s", strerror(errno));
}

static int take_real_time(int argc, char **argv) {
  (void)argc, (void)argv;
  struct sched_param parameters = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &parameters) == 0) return breach("took a real-time priority");
  return held("SCHED_FIFO: %s", strerror(errno));
}

/* Whoever lowers its score is spared when memory ends, and somebody else goes. */
static int spare_from_oom(int argc, char **argv) {
  (void)argc, (void)argv;
  int file = open("/proc/self/oom_score_adj", O_WRONLY);
  if (file < 0) return held("oom_score_adj: %s", strerror(errno));
  if (write(file, "-1000", 5) == 5) return breach("out of reach of the OOM killer");
  return held("oom_score_adj: %s", strerror(errno));
}

static int raise_open_files(int argc, char **argv) {
  (void)argc, (void)argv;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  struct rlimit more = {limit.rlim_max + 1, limit.rlim_max + 1};
  if (setrlimit(RLIMIT_NOFILE, &more) == 0) return breach("raised the limit of open files");
  return held("RLIMIT_NOFILE: %s", strerror(errno));
}

/* A terminal made outside: what is typed into it with TIOCSTI, an operator's shell would execute. */
static int outside_terminal(int argc, char **argv) {
  (void)argc, (void)argv;
  struct stat own;
  if (stat("/dev/pts", &own) != 0) own.st_dev = 0;
  for (int descriptor = 0; descriptor < 4; descriptor++) {
    int file = descriptor < 3 ? descriptor : open("/dev/tty", O_RDWR);
    struct stat found;
    if (file < 0 || !isatty(file) || fstat(file, &found) != 0) continue;
    if (descriptor == 3) return breach("a controlling terminal of the outside");
    char name[64] = "";
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (readlink(path, name, sizeof name - 1) < 0) continue;
    struct stat here;
    if (stat(name, &here) != 0 || here.st_dev != found.st_dev || here.st_ino != found.st_ino ||
        argc > 1) {
      return breach("terminal %s is not of this sandbox", name);
    }
  }
  return held("no terminal of the outside");
}

const struct attack process_attacks[] = {
    {"signal", signal_victim},
    {"sigqueue", queue_signal},
    {"pidfd-signal", pidfd_signal},
    {"trace", trace_victim},
    {"vm-read", read_victim},
    {"proc-mem", open_victim},
    {"prlimit", limit_victim},
    {"slow-down", slow_victim},
    {"pin", pin_victim},
    {"find-process", find_process},
    {"raise-priority", raise_priority},
    {"real-time", take_real_time},
    {"spare-from-oom", spare_from_oom},
    {"raise-open-files", raise_open_files},
    {"outside-terminal", outside_terminal},
    {0},
};
