/* The system-call filter, run instruction by instruction as the kernel does, over every number and the arguments. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "launch/seccomp.h"
#include "tests/check.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

static struct sock_filter program[SECCOMP_PROGRAM_MAX];
static size_t length;

/* The instructions that seccomp.c uses; any other is a fault of it. */
static uint32_t run(const struct seccomp_data *data) {
  uint32_t value = 0;
  for (size_t at = 0; at < length; at++) {
    const struct sock_filter *step = &program[at];
    bool is_true = false;
    switch (step->code) {
      case BPF_LD | BPF_W | BPF_ABS:
        CHECK(step->k % 4 == 0 && step->k + 4 <= sizeof *data);
        memcpy(&value, (const char *)data + step->k, sizeof value);
        continue;
      case BPF_ALU | BPF_AND | BPF_K: value &= step->k; continue;
      case BPF_RET | BPF_K: return step->k;
      case BPF_JMP | BPF_JEQ | BPF_K: is_true = value == step->k; break;
      case BPF_JMP | BPF_JGT | BPF_K: is_true = value > step->k; break;
      case BPF_JMP | BPF_JGE | BPF_K: is_true = value >= step->k; break;
      case BPF_JMP | BPF_JSET | BPF_K: is_true = (value & step->k) != 0; break;
      default: CHECK(!"an instruction that the filter does not use"); return 0;
    }
    at += is_true ? step->jt : step->jf;
  }
  CHECK(!"the filter runs off its end");
  return 0;
}

static uint32_t call(long number, uint64_t first, uint64_t third) {
  struct seccomp_data data = {.nr = (int)number, .arch = ARCHITECTURE, .args = {first, 0, third}};
  return run(&data);
}

static uint32_t call_socket(uint64_t family, uint64_t type, uint64_t protocol) {
  struct seccomp_data data = {.nr = __NR_socket, .arch = ARCHITECTURE, .args = {family, type, protocol}};
  return run(&data);
}

static void check_names(void) {
  static const long allowed[] = {__NR_read,    __NR_write,   __NR_execve,      __NR_openat,     __NR_exit_group,
                                 __NR_futex,   __NR_ptrace,  __NR_chroot,      __NR_fchownat,   __NR_lsetxattr,
                                 __NR_statx,   __NR_prctl,   __NR_getrandom,   __NR_epoll_ctl,  __NR_memfd_create,
                                 __NR_mknodat, __NR_setgroups, __NR_process_vm_readv};
  static const long refused[] = {__NR_mount,      __NR_umount2,        __NR_pivot_root,  __NR_setns,
                                 __NR_bpf,        __NR_perf_event_open, __NR_userfaultfd, __NR_keyctl,
                                 __NR_add_key,    __NR_request_key,    __NR_kexec_load,  __NR_open_by_handle_at,
                                 __NR_init_module, __NR_reboot,        __NR_swapon,      __NR_syslog,
                                 __NR_fsopen,     __NR_open_tree,      __NR_move_mount,  __NR_fsmount,
                                 __NR_sethostname, __NR_settimeofday,  __NR_quotactl};
  static const long absent[] = {__NR_clone3,        __NR_io_uring_setup, __NR_io_uring_enter, __NR_io_uring_register,
                                __NR_io_setup,      __NR_io_destroy,     __NR_io_submit,      __NR_io_getevents,
                                __NR_io_pgetevents, __NR_io_cancel};
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) CHECK(call(allowed[i], 0, 0) == SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    CHECK(call(refused[i], 0, 0) == (SECCOMP_RET_ERRNO | EPERM));
  }
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    CHECK(call(absent[i], 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS));
  }
}

static void check_arguments(void) {
  static const unsigned namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                        CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
  for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++) {
    CHECK(call(__NR_clone, namespaces[i] | 17, 0) == (SECCOMP_RET_ERRNO | EPERM));
    CHECK(call(__NR_unshare, namespaces[i], 0) == (SECCOMP_RET_ERRNO | EPERM));
  }
  CHECK(call(__NR_unshare, 0x80, 0) == (SECCOMP_RET_ERRNO | EPERM)); /* a time namespace */
  CHECK(call(__NR_unshare, CLONE_FILES, 0) == SECCOMP_RET_ALLOW);
  CHECK(call(__NR_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_THREAD | CLONE_SIGHAND, 0) == SECCOMP_RET_ALLOW);
  CHECK(call(__NR_personality, 0xffffffff, 0) == SECCOMP_RET_ALLOW);
  CHECK(call(__NR_personality, 0, 0) == SECCOMP_RET_ALLOW);
  CHECK(call(__NR_personality, 0x0040000, 0) == (SECCOMP_RET_ERRNO | EPERM)); /* ADDR_NO_RANDOMIZE */
}

static uint32_t call_option(uint64_t level, uint64_t option) {
  struct seccomp_data data = {.nr = __NR_setsockopt, .arch = ARCHITECTURE, .args = {3, level, option}};
  return run(&data);
}

/* Programs for the kernel: of sockets and of seccomp, and everything beside them by the same calls. */
static void check_filters(void) {
  for (uint64_t option = 0; option < 128; option++) {
    bool is_program = option == SO_ATTACH_FILTER || option == SO_ATTACH_BPF || option == SO_ATTACH_REUSEPORT_CBPF ||
                      option == SO_ATTACH_REUSEPORT_EBPF;
    CHECK(call_option(SOL_SOCKET, option) == (is_program ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW));
    CHECK(call_option(IPPROTO_TCP, option) == SECCOMP_RET_ALLOW);
  }
  for (uint64_t option = 0; option < 128; option++) {
    for (uint64_t mode = 0; mode < 4; mode++) {
      struct seccomp_data data = {.nr = __NR_prctl, .arch = ARCHITECTURE, .args = {option, mode}};
      bool is_program = option == PR_SET_SECCOMP && mode == SECCOMP_MODE_FILTER;
      CHECK(run(&data) == (is_program ? SECCOMP_RET_ERRNO | EINVAL : SECCOMP_RET_ALLOW));
    }
  }
  for (uint64_t operation = 0; operation < 8; operation++) {
    bool is_program = operation == SECCOMP_SET_MODE_FILTER;
    CHECK(call(__NR_seccomp, operation, 0) == (is_program ? SECCOMP_RET_ERRNO | EINVAL : SECCOMP_RET_ALLOW));
  }
}

/* A box that traces paths: one listener for each process, and no other filter. */
static void check_listener(void) {
  for (uint64_t flags = 0; flags < 64; flags++) {
    bool is_listener = (flags & ~UINT64_C(32)) == SECCOMP_FILTER_FLAG_NEW_LISTENER; /* 32: WAIT_KILLABLE_RECV */
    struct seccomp_data data = {.nr = __NR_seccomp, .arch = ARCHITECTURE, .args = {SECCOMP_SET_MODE_FILTER, flags}};
    CHECK(run(&data) == (is_listener ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EINVAL));
  }
  CHECK(call(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0) == SECCOMP_RET_ALLOW);
  struct seccomp_data data = {.nr = __NR_prctl, .arch = ARCHITECTURE, .args = {PR_SET_SECCOMP, SECCOMP_MODE_FILTER}};
  CHECK(run(&data) == (SECCOMP_RET_ERRNO | EINVAL));
}

/* A box whose programs make namespaces of their own: what they build a sandbox with, and no more. */
static void check_nesting(bool has_groups) {
  static const long allowed[] = {__NR_mount, __NR_umount2, __NR_pivot_root, __NR_sethostname, __NR_prctl};
  static const long refused[] = {__NR_setns,       __NR_bpf,           __NR_perf_event_open,   __NR_userfaultfd, __NR_keyctl,
                                 __NR_add_key,     __NR_request_key,   __NR_open_by_handle_at, __NR_init_module, __NR_reboot,
                                 __NR_swapon,      __NR_syslog,        __NR_settimeofday,      __NR_quotactl,    __NR_kcmp};
  static const long absent[] = {__NR_clone3,    __NR_io_uring_setup, __NR_fsopen,      __NR_fsmount, __NR_fsconfig, __NR_fspick,
                                __NR_open_tree, __NR_move_mount,     __NR_mount_setattr};
  static const unsigned namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS};
  uint32_t of_groups = has_groups ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM;
  for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) CHECK(call(allowed[i], 0, 0) == SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) CHECK(call(refused[i], 0, 0) == (SECCOMP_RET_ERRNO | EPERM));
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) CHECK(call(absent[i], 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS));
  for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++) {
    CHECK(call(__NR_clone, namespaces[i] | 17, 0) == SECCOMP_RET_ALLOW);
    CHECK(call(__NR_unshare, namespaces[i], 0) == SECCOMP_RET_ALLOW);
    CHECK(call(__NR_unshare, namespaces[i] | CLONE_NEWCGROUP, 0) == of_groups);
  }
  CHECK(call(__NR_clone, CLONE_NEWCGROUP | 17, 0) == of_groups);
  CHECK(call(__NR_unshare, CLONE_NEWUSER | 0x80, 0) == (SECCOMP_RET_ERRNO | EPERM)); /* a time namespace */
}

/* What netfilter and IPVS take, by both calls; what is beside it stays. */
static void check_netfilter(void) {
  static const int calls[] = {__NR_setsockopt, __NR_getsockopt};
  for (uint64_t option = 0; option < 2048; option++) {
    bool is_theirs = option == 64 || option == 65 || option == 96 || option == 97 || option == 128 || option == 129 || option >= 1024;
    uint32_t expected = is_theirs ? SECCOMP_RET_ERRNO | ENOPROTOOPT : SECCOMP_RET_ALLOW;
    for (size_t i = 0; i < 2; i++) {
      struct seccomp_data data = {.nr = calls[i], .arch = ARCHITECTURE, .args = {3, IPPROTO_IP, option}};
      CHECK(run(&data) == expected);
      data.args[1] = IPPROTO_IPV6;
      CHECK(run(&data) == expected);
      data.args[1] = IPPROTO_TCP;
      CHECK(run(&data) == SECCOMP_RET_ALLOW);
    }
  }
  CHECK(call_option(SOL_SOCKET, SO_ATTACH_FILTER) == (SECCOMP_RET_ERRNO | EPERM));
  CHECK(call_option(SOL_SOCKET, SO_REUSEADDR) == SECCOMP_RET_ALLOW);
}

static void check_own_filters(void) {
  for (uint64_t flags = 0; flags < 64; flags++) {
    struct seccomp_data data = {.nr = __NR_seccomp, .arch = ARCHITECTURE, .args = {SECCOMP_SET_MODE_FILTER, flags}};
    bool has_listener = (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0 || (flags & 32) != 0; /* 32: WAIT_KILLABLE_RECV */
    CHECK(run(&data) == (has_listener ? SECCOMP_RET_ERRNO | EINVAL : SECCOMP_RET_ALLOW));
  }
  struct seccomp_data data = {.nr = __NR_prctl, .arch = ARCHITECTURE, .args = {PR_SET_SECCOMP, SECCOMP_MODE_FILTER}};
  CHECK(run(&data) == SECCOMP_RET_ALLOW);
}

/* Every pair of type and protocol that the kernel has a module for and the relay no way. */
static void check_sockets(void) {
  static const uint64_t protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_MPTCP};
  static const uint64_t families[] = {AF_INET, AF_INET6};
  for (size_t family = 0; family < 2; family++) {
    for (uint64_t type = 0; type < 16; type++) {
      bool is_known = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_RAW;
      for (uint64_t protocol = 0; protocol < 512; protocol++) {
        bool is_allowed = false;
        for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++) {
          is_allowed = is_allowed || (is_known && protocol == protocols[i]);
        }
        uint32_t expected = is_allowed ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
        CHECK(call_socket(families[family], type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol) == expected);
      }
    }
  }
  CHECK(call_socket(AF_UNIX, SOCK_SEQPACKET, 0) == SECCOMP_RET_ALLOW);
  CHECK(call_socket(AF_NETLINK, SOCK_RAW, 0) == SECCOMP_RET_ALLOW);
  for (uint64_t protocol = 1; protocol < 32; protocol++) {
    CHECK(call_socket(AF_NETLINK, SOCK_RAW, protocol) == (SECCOMP_RET_ERRNO | EAFNOSUPPORT));
  }
  for (uint64_t family = 0; family < 64; family++) {
    uint32_t pair = family == AF_UNIX ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EAFNOSUPPORT;
    CHECK(call(__NR_socketpair, family, 0) == pair);
    if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK) continue;
    CHECK(call_socket(family, SOCK_STREAM, 0) == (SECCOMP_RET_ERRNO | EAFNOSUPPORT));
  }
}

/* Whatever the number, the filter gives one of its three answers; the x32 half of x86_64 has none allowed. */
static void check_every_number(void) {
  for (long number = 0; number < 2048; number++) {
    uint32_t answer = call(number, 0, 0);
    CHECK(answer == SECCOMP_RET_ALLOW || answer == (SECCOMP_RET_ERRNO | EPERM) ||
          answer == (SECCOMP_RET_ERRNO | ENOSYS) || answer == (SECCOMP_RET_ERRNO | EAFNOSUPPORT) ||
          answer == SECCOMP_RET_ERRNO);
    CHECK(call(number | 0x40000000, 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS));
  }
  CHECK(call(470, 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS));
  CHECK(call(-1, 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS));
  struct seccomp_data data = {.nr = __NR_read, .arch = AUDIT_ARCH_I386};
  CHECK(run(&data) == SECCOMP_RET_KILL_PROCESS);
}

/* squash-init alone loads one, and says in it that nobody does behind it. */
static void check_filter(bool permits_listener) {
  length = seccomp_build(program, SECCOMP_PROGRAM_MAX,
                         &(struct seccomp_options){.permits_filter = true, .permits_listener = permits_listener});
  CHECK(length > 0);
  for (uint64_t flags = 0; flags < 64; flags++) {
    bool is_listener = permits_listener && (flags & ~UINT64_C(32)) == SECCOMP_FILTER_FLAG_NEW_LISTENER;
    bool is_plain = flags == 0 || (permits_listener && flags == 32); /* 32 alone the kernel refuses */
    struct seccomp_data data = {.nr = __NR_seccomp, .arch = ARCHITECTURE, .args = {SECCOMP_SET_MODE_FILTER, flags}};
    CHECK(run(&data) == (is_listener || is_plain ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EINVAL));
  }
  CHECK(call(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0) == SECCOMP_RET_ALLOW);
  struct seccomp_data data = {.nr = __NR_prctl, .arch = ARCHITECTURE, .args = {PR_SET_SECCOMP, SECCOMP_MODE_FILTER}};
  CHECK(run(&data) == (SECCOMP_RET_ERRNO | EINVAL));
  check_names();
  check_arguments();
  check_sockets();
  check_every_number();
}

int main(void) {
  length = seccomp_build(program, SECCOMP_PROGRAM_MAX, &(struct seccomp_options){0});
  CHECK(length > 0 && length < BPF_MAXINSNS);
  check_names();
  check_arguments();
  check_sockets();
  check_filters();
  check_every_number();
  CHECK(call(__NR_fchown, 0, 0) == SECCOMP_RET_ALLOW);
  CHECK(seccomp_build(program, 16, &(struct seccomp_options){0}) == 0);
  length = seccomp_build(program, SECCOMP_PROGRAM_MAX, &(struct seccomp_options){.pretends_chown = true});
  CHECK(length > 0);
  CHECK(call(__NR_fchown, 0, 0) == SECCOMP_RET_ERRNO);
  CHECK(call(__NR_fchownat, 0, 0) == SECCOMP_RET_ERRNO);
  check_arguments();
  check_every_number();
  length = seccomp_build(program, SECCOMP_PROGRAM_MAX, &(struct seccomp_options){.permits_listener = true});
  CHECK(length > 0);
  check_names();
  check_arguments();
  check_sockets();
  check_listener();
  check_every_number();
  check_filter(false);
  check_filter(true);
  length = seccomp_build(program, SECCOMP_PROGRAM_MAX, &(struct seccomp_options){.permits_own_filters = true});
  CHECK(length > 0 && length < BPF_MAXINSNS);
  check_names();
  check_arguments();
  check_sockets();
  check_own_filters();
  check_every_number();
  for (unsigned has_groups = 0; has_groups < 2; has_groups++) {
    length = seccomp_build(program, SECCOMP_PROGRAM_MAX,
                           &(struct seccomp_options){.permits_nesting = true, .permits_group_namespaces = has_groups == 1});
    CHECK(length > 0 && length < BPF_MAXINSNS);
    check_nesting(has_groups == 1);
    check_netfilter();
    check_own_filters();
    check_sockets();
    check_every_number();
  }
  return check_summary();
}
