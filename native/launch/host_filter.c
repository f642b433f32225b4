/* Refusing what Squash's own processes never need: see host_filter.h. */
#include "launch/host_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

enum {
  ALL = HOST_FILTER_LAUNCHER | HOST_FILTER_NODE,
  NODE = HOST_FILTER_NODE,
  EGRESS = HOST_FILTER_EGRESS | HOST_FILTER_GATEWAY,
  GATEWAY = HOST_FILTER_GATEWAY,
};

static const struct {
  uint32_t number;
  unsigned who;
} refused[] = {
    {__NR_init_module, ALL}, {__NR_finit_module, ALL}, {__NR_delete_module, ALL}, {__NR_kexec_load, ALL},
    {__NR_kexec_file_load, ALL}, {__NR_reboot, ALL}, {__NR_swapon, ALL}, {__NR_swapoff, ALL}, {__NR_acct, ALL},
    {__NR_bpf, ALL}, {__NR_perf_event_open, ALL}, {__NR_userfaultfd, ALL}, {__NR_keyctl, ALL}, {__NR_add_key, ALL},
    {__NR_request_key, ALL}, {__NR_syslog, ALL}, {__NR_settimeofday, ALL}, {__NR_clock_settime, ALL},
    {__NR_fanotify_init, ALL}, {__NR_open_by_handle_at, ALL}, {__NR_quotactl, ALL},
#ifdef __x86_64__
    {__NR_iopl, ALL}, {__NR_ioperm, ALL},
#endif
    {__NR_ptrace, NODE}, {__NR_process_vm_readv, NODE}, {__NR_process_vm_writev, NODE},
    {438 /* pidfd_getfd */, NODE}, {__NR_kcmp, NODE}, {__NR_unshare, NODE},
    {__NR_mount, NODE}, {__NR_umount2, NODE}, {__NR_pivot_root, NODE},
    {__NR_chroot, NODE}, {428 /* open_tree */, NODE}, {429 /* move_mount */, NODE},
    {442 /* mount_setattr */, NODE}, {433 /* fspick */, NODE}, {467 /* open_tree_attr */, NODE},
    {__NR_sethostname, NODE}, {__NR_setdomainname, NODE},
    {__NR_setns, NODE}, {430 /* fsopen */, NODE}, {431 /* fsconfig */, NODE}, {432 /* fsmount */, NODE},
    {443 /* quotactl_fd */, NODE}, {__NR_name_to_handle_at, NODE},
    {__NR_fchmodat, EGRESS}, {452 /* fchmodat2 */, EGRESS}, {__NR_fchownat, EGRESS}, {__NR_truncate, EGRESS},
    {__NR_utimensat, EGRESS}, {__NR_setxattr, EGRESS}, {__NR_lsetxattr, EGRESS}, {__NR_removexattr, EGRESS},
    {__NR_lremovexattr, EGRESS}, {463 /* setxattrat */, EGRESS}, {466 /* removexattrat */, EGRESS}, {469 /* file_setattr */, EGRESS},
#ifdef __x86_64__
    {__NR_chmod, EGRESS}, {__NR_chown, EGRESS}, {__NR_lchown, EGRESS}, {__NR_utime, EGRESS}, {__NR_utimes, EGRESS},
    {__NR_futimesat, EGRESS},
#endif
    /* Relays have its id. */
    {__NR_kill, GATEWAY}, {__NR_tkill, GATEWAY}, {__NR_tgkill, GATEWAY}, {__NR_rt_sigqueueinfo, GATEWAY},
    {__NR_rt_tgsigqueueinfo, GATEWAY}, {424 /* pidfd_send_signal */, GATEWAY},
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

/* Words put into a terminal, as if its owner had typed them; the second writes to the console's. */
static const uint32_t terminal_requests[] = {TIOCSTI, TIOCLINUX};

/* libuv and the C libraries do without these: their flags lie in memory that a filter can't read. */
static const uint32_t absent[] = {435 /* clone3 */, 425 /* io_uring_setup */};

#define NAMESPACE_FLAGS                                                                                              \
  ((uint32_t)CLONE_NEWNS | (uint32_t)CLONE_NEWCGROUP | (uint32_t)CLONE_NEWUTS | (uint32_t)CLONE_NEWIPC |             \
   (uint32_t)CLONE_NEWUSER | (uint32_t)CLONE_NEWPID | (uint32_t)CLONE_NEWNET)
#define ERRNO(number) (SECCOMP_RET_ERRNO | (uint32_t)(number))
#define LOAD(field) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field)))
#define ANSWER(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action))
/* The next `count` instructions are for this value alone. */
#define ONLY_FOR(value, count) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count))

static size_t build(struct sock_filter *program, enum host_filter who) {
  size_t used = 0;
  program[used++] = LOAD(arch);
  program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0);
  program[used++] = ANSWER(SECCOMP_RET_KILL_PROCESS);
  program[used++] = LOAD(nr);
#ifdef __x86_64__
  /* The same calls by other numbers (x32). */
  program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1);
  program[used++] = ANSWER(ERRNO(ENOSYS));
#endif
  for (size_t i = 0; i < REFUSED; i++) {
    if ((refused[i].who & who) == 0) continue;
    program[used++] = ONLY_FOR(refused[i].number, 1);
    program[used++] = ANSWER(ERRNO(EPERM));
  }
  if (who == HOST_FILTER_NODE) {
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
      program[used++] = ONLY_FOR(absent[i], 1);
      program[used++] = ANSWER(ERRNO(ENOSYS));
    }
    program[used++] = ONLY_FOR(__NR_clone, 4);
    program[used++] = LOAD(args[0]);
    program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1);
    program[used++] = ANSWER(ERRNO(EPERM));
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
    /* One with a terminal of root's, from which it was started. The launcher has none. */
    program[used++] = ONLY_FOR(__NR_ioctl, 5);
    program[used++] = LOAD(args[1]);
    for (size_t i = 0; i < 2; i++) {
      program[used++] = ONLY_FOR(terminal_requests[i], 1);
      program[used++] = ANSWER(ERRNO(EPERM));
    }
  }
  if (who == HOST_FILTER_GATEWAY) {
    /* It serves a listener that it was given, and asks the daemon: it has nobody else to connect to. */
    program[used++] = ONLY_FOR(__NR_socket, 4);
    program[used++] = LOAD(args[0]);
    program[used++] = ONLY_FOR(AF_UNIX, 1);
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
    program[used++] = ANSWER(ERRNO(EPERM));
  }
  program[used++] = ANSWER(SECCOMP_RET_ALLOW);
  return used;
}

int host_filter_load(enum host_filter who, struct fault *fault) {
  struct sock_filter program[2 * REFUSED + 24];
  struct sock_fprog filter = {.len = (unsigned short)build(program, who), .filter = program};
  if (who != HOST_FILTER_LAUNCHER && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fault_set(fault, "launch_failed", "can't give up gaining privileges");
  }
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't filter the system calls of Squash's own processes");
}
