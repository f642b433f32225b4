/* System calls and devices that reach the one kernel all sandboxes share. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct call {
  const char *name;
  long number;
  long arguments[5];
};

static char bad_path[] = "/nonexistent/attack";
#define BAD ((long)bad_path)

/* Arguments that do nothing where the call is allowed: what counts is who answers, the filter or the kernel. */
static const struct call calls[] = {
    {"init_module", SYS_init_module, {0, 0, BAD}},
    {"finit_module", SYS_finit_module, {-1, BAD, 0}},
    {"delete_module", SYS_delete_module, {BAD, 0}},
    {"kexec_load", SYS_kexec_load, {0, 0, 0, 0x7fff}},
    {"kexec_file_load", SYS_kexec_file_load, {-1, -1, 0, 0, 0x7fff}},
    {"reboot", SYS_reboot, {1, 2, 3}},
    {"swapon", SYS_swapon, {BAD, 0}},
    {"swapoff", SYS_swapoff, {BAD}},
    {"acct", SYS_acct, {BAD}},
    {"quotactl", SYS_quotactl, {0x80000700 /* Q_GETINFO */, BAD, 0, 0}},
    {"syslog", SYS_syslog, {10 /* buffer size */, 0, 0}},
    {"io_uring_setup", 425, {0, 0}},
    {"io_uring_enter", 426, {-1}},
    {"io_uring_register", 427, {-1}},
    {"io_setup", SYS_io_setup, {1, 0}},
    {"fanotify_init", SYS_fanotify_init, {0, 0}},
    {"add_key", SYS_add_key, {(long)"user", (long)"attack", (long)"x", 1, -2 /* process keyring */}},
    {"request_key", SYS_request_key, {(long)"user", (long)"attack-none", 0, 0}},
    {"keyctl-join", SYS_keyctl, {1 /* JOIN_SESSION_KEYRING */, 0}},
    {"keyctl-describe", SYS_keyctl, {6 /* DESCRIBE */, -4 /* user keyring */, 0, 0}},
    {"kcmp", SYS_kcmp, {1, 1, 0, 0, 0}},
    {"move_pages", SYS_move_pages, {0, 0, 0, 0, 0}},
    {"mbind", SYS_mbind, {0, 0, 0, 0, 0}},
    {"lookup_dcookie", SYS_lookup_dcookie, {0, 0, 0}},
    {"statmount", 457, {0, 0, 0, 0}},
    {"listmount", 458, {0, 0, 0, 0}},
    {"quotactl_fd", 443, {-1, 0, 0, 0}},
    {"open_tree_attr", 467, {-1, 0, 0, 0, 0}},
    {"vhangup", SYS_vhangup, {0}},
#ifdef __x86_64__
    {"iopl", SYS_iopl, {3}},
    {"ioperm", SYS_ioperm, {0x80, 1, 1}},
#endif
};

static int call_kernel(int argc, char **argv) {
  if (argc < 2) return 2;
  for (size_t index = 0; index < sizeof calls / sizeof calls[0]; index++) {
    const struct call *call = &calls[index];
    if (strcmp(call->name, argv[1]) != 0) continue;
    const long *a = call->arguments;
    return refused(call->name, syscall(call->number, a[0], a[1], a[2], a[3], a[4]));
  }
  fprintf(stderr, "no call %s\n", argv[1]);
  return 2;
}

static int load_bpf(int argc, char **argv) {
  (void)argc, (void)argv;
  union bpf_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = 4;
  attributes.value_size = 4;
  attributes.max_entries = 1;
  return refused("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

static int open_perf(int argc, char **argv) {
  (void)argc, (void)argv;
  struct perf_event_attr attributes = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_DUMMY};
  return refused("perf_event_open", syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

static int fault_in_user_space(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int set_clock(int argc, char **argv) {
  (void)argc, (void)argv;
  /* The tick as it is: nothing changes where it is allowed. */
  struct timex now = {0};
  if (adjtimex(&now) < 0) return held("adjtimex: %s", strerror(errno));
  now.modes = ADJ_TICK;
  return refused("adjtimex", adjtimex(&now));
}

static int rename_host(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("sethostname", sethostname("attacked", 8));
}

static int rename_domain(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("setdomainname", setdomainname("attacked", 8));
}

/* Without randomised addresses every setuid program is an easier target. */
static int fix_addresses(int argc, char **argv) {
  (void)argc, (void)argv;
  return refused("personality", personality(ADDR_NO_RANDOMIZE));
}

/* Calls a child that may be killed for it; what the kernel answers comes back as its exit code. */
static int in_child(const char *what, int (*body)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return untried("fork: %s", strerror(errno));
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGSYS) return held("%s: ended by SIGSYS", what);
    return untried("%s: this kernel has none (signal %d)", what, WTERMSIG(status));
  }
  if (WEXITSTATUS(status) == 0) return breach("%s was carried out", what);
  if (WEXITSTATUS(status) == 1) return held("%s is refused", what);
  return untried("%s: this kernel or architecture has none", what);
}

/* 32-bit calls have other numbers: a filter that does not look at the architecture reads them wrongly. */
static int call_i386(void) {
#ifdef __x86_64__
  long result = 0;
  /* getpid is 20 there; 20 here is writev. */
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L), "b"(0L), "c"(0L), "d"(0L) : "memory", "r8", "r9",
                   "r10", "r11");
  return result > 0 ? 0 : result == -ENOSYS ? 2 : 1;
#else
  return 2;
#endif
}

static int call_x32(void) {
#ifdef __x86_64__
  long result = syscall(0x40000000L | SYS_getpid);
  return result > 0 ? 0 : errno == ENOSYS ? 2 : 1;
#else
  return 2;
#endif
}

static int use_i386(int argc, char **argv) {
  (void)argc, (void)argv;
  return in_child("an i386 call", call_i386);
}

static int use_x32(int argc, char **argv) {
  (void)argc, (void)argv;
  return in_child("an x32 call", call_x32);
}

/* `device c|b MAJOR MINOR`: makes the node and opens it. */
static int make_device(int argc, char **argv) {
  if (argc < 4) return 2;
  mode_t type = argv[1][0] == 'b' ? S_IFBLK : S_IFCHR;
  dev_t number = makedev((unsigned)count_of(argv[2]), (unsigned)count_of(argv[3]));
  unlink("device");
  if (mknod("device", type | 0600, number) != 0) return held("mknod: %s", strerror(errno));
  int file = open("device", O_RDONLY | O_NONBLOCK);
  int error = errno;
  unlink("device");
  if (file >= 0) return breach("made and opened device %s %s:%s", argv[1], argv[2], argv[3]);
  return error == ENXIO || error == ENODEV ? breach("made the device; no driver here")
                                           : held("device: %s", strerror(error));
}

/* Opens a node that is there already, e.g. one that a hostile image brought. */
static int open_device(int argc, char **argv) {
  if (argc < 2) return 2;
  int file = open(argv[1], O_RDONLY | O_NONBLOCK);
  if (file >= 0) return breach("opened %s", argv[1]);
  if (errno == ENXIO || errno == ENODEV) return breach("%s led to a missing driver", argv[1]);
  return held("%s: %s", argv[1], strerror(errno));
}

/* Addresses of the kernel: all zero for those who may not know them. */
static int kernel_addresses(int argc, char **argv) {
  (void)argc, (void)argv;
  FILE *symbols = fopen("/proc/kallsyms", "re");
  if (symbols == NULL) return held("kallsyms: %s", strerror(errno));
  unsigned long long address = 0;
  while (fscanf(symbols, "%llx %*[^\n]", &address) == 1) {
    if (address != 0) {
      fclose(symbols);
      return breach("kernel addresses are visible");
    }
  }
  fclose(symbols);
  return held("all addresses are zero");
}

const struct attack kernel_attacks[] = {
    {"call", call_kernel},
    {"bpf", load_bpf},
    {"perf", open_perf},
    {"userfaultfd", fault_in_user_space},
    {"set-clock", set_clock},
    {"set-hostname", rename_host},
    {"set-domainname", rename_domain},
    {"personality", fix_addresses},
    {"i386", use_i386},
    {"x32", use_x32},
    {"device", make_device},
    {"open-device", open_device},
    {"kernel-addresses", kernel_addresses},
    {0},
};
