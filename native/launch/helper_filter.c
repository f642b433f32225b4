/*
 * The system calls that the privileged helper and its mkfs.ext4 make: an allow list, because both are known programs. It is
 * real root in the host's namespaces, so a hijacked one still writes any file; what it does not get is the rest
 * of the kernel: no network, no tracing, no signal but the one that ends what is left of a dead launcher, no ids, no namespaces but
 * user namespaces, no mounts but new file systems that are attached nowhere.
 *
 * Whatever else is asked for is answered as by a kernel that does not have it, so that a C library falls back, and is a
 * line in the kernel's audit log. mkfs.ext4 is the distribution's: the list has what C libraries do at their start and to files, in all
 * their spellings.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch/helper_verbs.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

static const uint32_t allowed[] = {
    /* Descriptors and what is in them. */
    __NR_read, __NR_write, __NR_pread64, __NR_pwrite64, __NR_readv, __NR_writev, __NR_lseek, __NR_close, __NR_dup, __NR_dup3,
    __NR_fcntl, __NR_flock, __NR_ftruncate, __NR_fallocate, __NR_fsync, __NR_fdatasync, __NR_fadvise64, __NR_pipe2,
    __NR_memfd_create, __NR_ppoll, 436 /* close_range */,
    /* Files by name. */
    __NR_openat, 437 /* openat2 */, __NR_newfstatat, __NR_fstat, __NR_statx, __NR_statfs, __NR_fstatfs, __NR_getdents64,
    __NR_readlinkat, __NR_faccessat, 439 /* faccessat2 */, __NR_mkdirat, __NR_mknodat, __NR_unlinkat, __NR_renameat2,
    __NR_fchown, __NR_fchownat, __NR_fchmod, __NR_fchmodat, 452 /* fchmodat2 */, __NR_utimensat, __NR_getcwd, __NR_umask,
#ifdef __NR_renameat
    __NR_renameat,
#endif
    /* File systems and quotas. */
    430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */, 442 /* mount_setattr */, 443 /* quotactl_fd */,
    /* Messages over what it has: no socket of another kind is made, none connected. */
    __NR_sendmsg, __NR_recvmsg, __NR_sendto, __NR_recvfrom,
    /* Processes: its own children. */
    __NR_execve, __NR_wait4, __NR_exit, __NR_exit_group, __NR_getpid, __NR_getppid, __NR_gettid, __NR_getuid, __NR_geteuid,
    __NR_getgid, __NR_getegid, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack,
    __NR_restart_syscall, __NR_sched_yield, __NR_sched_getaffinity,
    /* Memory, threads' bookkeeping, time. */
    __NR_brk, __NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_futex, __NR_set_tid_address,
    __NR_set_robust_list, __NR_rseq, __NR_prlimit64, __NR_getrandom, __NR_uname, __NR_sysinfo, __NR_nanosleep,
    __NR_clock_nanosleep, __NR_clock_gettime, __NR_gettimeofday,
#ifdef __x86_64__
    __NR_open, __NR_stat, __NR_lstat, __NR_access, __NR_readlink, __NR_rename, __NR_mkdir, __NR_rmdir, __NR_unlink, __NR_pipe,
    __NR_dup2, __NR_poll, __NR_fork, __NR_vfork, __NR_arch_prctl, __NR_time,
#endif
};
enum { ALLOWED = sizeof allowed / sizeof allowed[0] };

/* Of loop devices and projects, of user namespaces (who made one), and what mkfs asks of a disk. Another one answers as a plain file. */
static const uint32_t requests[] = {
    LOOP_CTL_GET_FREE, LOOP_GET_STATUS64, 0x4c0a /* LOOP_CONFIGURE */, LOOP_CLR_FD, FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR,
    0xb704 /* NS_GET_OWNER_UID */, BLKGETSIZE, BLKGETSIZE64, BLKSSZGET, BLKPBSZGET, BLKROGET, BLKDISCARDZEROES,
    0x80200204 /* FDGETPRM */, TCGETS,
};

static const uint32_t words[] = {PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_NAME, 0x53564d41 /* PR_SET_VMA */};

/* All but a user namespace, in which nobody ever is: it describes the ids of a mount. */
#define NAMESPACE_FLAGS                                                                                              \
  ((uint32_t)CLONE_NEWNS | (uint32_t)CLONE_NEWCGROUP | (uint32_t)CLONE_NEWUTS | (uint32_t)CLONE_NEWIPC |             \
   (uint32_t)CLONE_NEWPID | (uint32_t)CLONE_NEWNET)
#define ERRNO(number) (SECCOMP_RET_ERRNO | (uint32_t)(number))
#define LOAD(field) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field)))
#define ANSWER(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action))
/* The next `count` instructions are for this value alone. */
#define ONLY_FOR(value, count) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count))

/* `number` where its argument is one of the values, else this error. */
static size_t build_choice(struct sock_filter *program, uint32_t number, struct sock_filter argument,
                           const uint32_t *values, size_t count, uint32_t error) {
  size_t used = 0;
  program[used++] = ONLY_FOR(number, (uint8_t)(2 * count + 2));
  program[used++] = argument;
  for (size_t i = 0; i < count; i++) {
    program[used++] = ONLY_FOR(values[i], 1);
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
  }
  program[used++] = ANSWER(ERRNO(error));
  return used;
}

enum { INSTRUCTIONS_MAX = 2 * ALLOWED + 100 };

static size_t build(struct sock_filter *program) {
  static const uint32_t user_namespace[] = {CLONE_NEWUSER};
  static const uint32_t local[] = {AF_UNIX};
  static const uint32_t end[] = {SIGKILL};
  size_t used = 0;
  program[used++] = LOAD(arch);
  program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0);
  program[used++] = ANSWER(SECCOMP_RET_KILL_PROCESS);
  program[used++] = LOAD(nr);
  for (size_t i = 0; i < ALLOWED; i++) {
    program[used++] = ONLY_FOR(allowed[i], 1);
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
  }
  program[used++] = ONLY_FOR(__NR_clone, 4);
  program[used++] = LOAD(args[0]);
  program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1);
  program[used++] = ANSWER(ERRNO(EPERM));
  program[used++] = ANSWER(SECCOMP_RET_ALLOW);
  used += build_choice(program + used, __NR_ioctl, LOAD(args[1]), requests, sizeof requests / sizeof requests[0], ENOTTY);
  used += build_choice(program + used, __NR_prctl, LOAD(args[0]), words, sizeof words / sizeof words[0], EINVAL);
  used += build_choice(program + used, __NR_setns, LOAD(args[1]), user_namespace, 1, EPERM);
  used += build_choice(program + used, __NR_socketpair, LOAD(args[0]), local, 1, EPERM);
  used += build_choice(program + used, __NR_kill, LOAD(args[1]), end, 1, EPERM);
  program[used++] = ANSWER(ERRNO(ENOSYS));
  return used;
}

int helper_filter_load(struct fault *fault) {
  struct sock_filter program[INSTRUCTIONS_MAX];
  struct sock_fprog filter = {.len = (unsigned short)build(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fault_set(fault, "launch_failed", "can't give up gaining privileges");
  }
  if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &filter) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't filter the privileged helper's system calls");
}
