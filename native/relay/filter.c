/*
 * The relay's system calls: see filter.h.
 *
 * It reads bytes that a hostile program sent and holds sockets of two networks, so what it could do with them if
 * it were taken over is bounded here: nothing can be opened, made, connected, bound or executed, no memory becomes
 * executable, no socket option outside of its own few levels is touched. What it writes to it was handed.
 */
#include "relay/filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filter is written for x86_64 and aarch64"
#endif

/* The low half of an argument: both architectures are little-endian, and the kernel reads int arguments so. */
#define ARGUMENT(index) ((uint32_t)(offsetof(struct seccomp_data, args) + (index) * 8))
#define ARGUMENT_HIGH(index) (ARGUMENT(index) + 4)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define SKIP_UNLESS(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (count))
#define ALLOW(name) SKIP_UNLESS(__NR_##name, 1), RETURN(SECCOMP_RET_ALLOW)
/* `name` where no bit of `bits` is set in the argument; ends the program either way. */
#define ALLOW_WITHOUT(name, index, bits)                                                                       \
  SKIP_UNLESS(__NR_##name, 4), LOAD(ARGUMENT(index)), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 1, 0),     \
      RETURN(SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_KILL_PROCESS)
/* `name` where the argument is one of two values. */
#define ALLOW_EITHER(name, index, first, second)                                                               \
  SKIP_UNLESS(__NR_##name, 5), LOAD(ARGUMENT(index)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (first), 1, 0),     \
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (second), 0, 1), RETURN(SECCOMP_RET_ALLOW),                          \
      RETURN(SECCOMP_RET_KILL_PROCESS)

static const struct sock_filter program[] = {
    LOAD(offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0),
    RETURN(SECCOMP_RET_KILL_PROCESS),
    LOAD(offsetof(struct seccomp_data, nr)),
    ALLOW(splice),
#ifdef __NR_epoll_wait
    ALLOW(epoll_wait),
#endif
    ALLOW(epoll_pwait),
    ALLOW(epoll_ctl),
    ALLOW(getsockopt),
    ALLOW(close),
    ALLOW(recvfrom),
    ALLOW(recvmsg),
    ALLOW(shutdown),
    ALLOW(accept4),
    ALLOW(getsockname),
    ALLOW(pipe2),
    ALLOW(clock_gettime),
    ALLOW(epoll_create1),
    ALLOW(brk),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(rt_sigreturn),
    ALLOW(restart_syscall),
    ALLOW(exit_group),
    /* No new connection by way of sending: MSG_FASTOPEN connects. */
    ALLOW_WITHOUT(sendmsg, 2, MSG_FASTOPEN),
    SKIP_UNLESS(__NR_sendto, 8),
    LOAD(ARGUMENT(3)),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MSG_FASTOPEN, 5, 0),
    LOAD(ARGUMENT(4)), /* to an address */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
    LOAD(ARGUMENT_HIGH(4)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
    RETURN(SECCOMP_RET_ALLOW),
    RETURN(SECCOMP_RET_KILL_PROCESS),
    ALLOW_WITHOUT(mmap, 2, PROT_EXEC),
    ALLOW_WITHOUT(mprotect, 2, PROT_EXEC),
    ALLOW_EITHER(fcntl, 1, F_SETPIPE_SZ, F_GETPIPE_SZ),
    ALLOW_EITHER(setsockopt, 1, SOL_SOCKET, IPPROTO_TCP),
    RETURN(SECCOMP_RET_KILL_PROCESS),
};

int filter_load(void) {
  static struct sock_filter copy[sizeof program / sizeof program[0]];
  __builtin_memcpy(copy, program, sizeof program);
  struct sock_fprog loaded = {.len = (unsigned short)(sizeof program / sizeof program[0]), .filter = copy};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &loaded, 0, 0);
}
