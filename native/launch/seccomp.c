/*
 * Builds the filter: see seccomp.h. Once per launcher, so the order of instructions matters little; the kernel
 * keeps a bitmap of the numbers that are allowed whatever their arguments and does not run the program for them.
 */
#include "launch/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common/descriptor.h"
#include "launch/memory_file.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the system-call table is written for x86_64 and aarch64"
#endif

/* <linux/seccomp.h> of 5.19. */
#define WAIT_KILLABLE (1U << 5)
/* All but NEW_LISTENER and what goes with it. */
#define OWN_FILTER_FLAGS 0x17U
#define CLONE_NEWTIME_FLAG 0x00000080U
#define NAMESPACE_FLAGS                                                                                    \
  ((unsigned)CLONE_NEWNS | (unsigned)CLONE_NEWCGROUP | (unsigned)CLONE_NEWUTS | (unsigned)CLONE_NEWIPC |   \
   (unsigned)CLONE_NEWUSER | (unsigned)CLONE_NEWPID | (unsigned)CLONE_NEWNET)

/* The allowed values of personality(2): Linux, 32-bit Linux, with and without UNAME26, and "just ask". */
static const uint32_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

#define ERRNO(number) (SECCOMP_RET_ERRNO | (uint32_t)(number))

struct rule {
  uint32_t number;
  uint32_t action;
};

#define ALLOW(name) {__NR_##name, SECCOMP_RET_ALLOW},
#define REFUSE(name) {__NR_##name, ERRNO(EPERM)},
#define ABSENT(name) {__NR_##name, ERRNO(ENOSYS)},
#define ALLOW_NUMBER(number) {number, SECCOMP_RET_ALLOW},
#define REFUSE_NUMBER(number) {number, ERRNO(EPERM)},
static const struct rule table[] = {
#include "launch/seccomp_table.h"
};
#undef ALLOW
#undef REFUSE
#undef ABSENT
#undef ALLOW_NUMBER
#undef REFUSE_NUMBER
enum { RULES = sizeof table / sizeof table[0] };

struct builder {
  struct sock_filter *program;
  size_t max;
  size_t used;
};

static void put(struct builder *builder, unsigned code, uint32_t value, unsigned jumps) {
  if (builder->used < builder->max) {
    builder->program[builder->used] = (struct sock_filter){
        .code = (uint16_t)code, .k = value, .jt = (uint8_t)(jumps >> 8), .jf = (uint8_t)jumps};
  }
  builder->used++;
}

enum { LOAD = BPF_LD | BPF_W | BPF_ABS, EQUAL = BPF_JMP | BPF_JEQ | BPF_K, RETURN = BPF_RET | BPF_K };
/* Jumps over `yes` instructions when true, `no` when false. */
#define JUMPS(yes, no) ((unsigned)(yes) << 8 | (unsigned)(no))
/* The low half of an argument: both architectures are little-endian, and the kernel itself reads int arguments so. */
#define ARGUMENT(index) ((uint32_t)(offsetof(struct seccomp_data, args) + (index) * 8))

static void put_return(struct builder *builder, uint32_t action) { put(builder, RETURN, action, 0); }

/* `clone` and `unshare` without any of these new namespaces. */
static void put_no_namespaces(struct builder *builder, uint32_t number, uint32_t flags) {
  put(builder, EQUAL, number, JUMPS(0, 4));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, BPF_JMP | BPF_JSET | BPF_K, flags, JUMPS(1, 0));
  put_return(builder, SECCOMP_RET_ALLOW);
  put_return(builder, ERRNO(EPERM));
}

/*
 * What an Internet socket may be. The kernel loads a module for any other pair of type and protocol that somebody
 * merely names (SCTP, DCCP, L2TP), and the relay carries none of them. MPTCP is what Go asks for first.
 */
static const uint32_t internet_types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW};
static const uint32_t internet_protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_MPTCP};
enum {
  INTERNET_TYPES = sizeof internet_types / sizeof internet_types[0],
  INTERNET_PROTOCOLS = sizeof internet_protocols / sizeof internet_protocols[0],
  INTERNET_STEPS = 5 + INTERNET_TYPES + INTERNET_PROTOCOLS,
};
/* <linux/net.h>: the type's own bits, below SOCK_CLOEXEC and SOCK_NONBLOCK. */
#define SOCKET_TYPE_BITS 0xfU

/* INTERNET_STEPS instructions, each way through them ends in an answer. */
static void put_internet_socket(struct builder *builder) {
  put(builder, LOAD, ARGUMENT(1), 0);
  put(builder, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_BITS, 0);
  for (unsigned i = 0; i < INTERNET_TYPES; i++) {
    bool is_last = i + 1 == INTERNET_TYPES;
    put(builder, EQUAL, internet_types[i], JUMPS(INTERNET_TYPES - 1 - i, is_last ? INTERNET_PROTOCOLS + 1 : 0));
  }
  put(builder, LOAD, ARGUMENT(2), 0);
  for (unsigned i = 0; i < INTERNET_PROTOCOLS; i++) {
    put(builder, EQUAL, internet_protocols[i], JUMPS(INTERNET_PROTOCOLS - i, 0));
  }
  put_return(builder, ERRNO(EPROTONOSUPPORT));
  put_return(builder, SECCOMP_RET_ALLOW);
}

/*
 * `socket` for Unix and Internet families; netlink only for routing, which the C library reads interfaces with.
 * `socketpair` for Unix alone: other families make both sockets before they refuse to pair them.
 */
static void put_socket(struct builder *builder) {
  put(builder, EQUAL, __NR_socketpair, JUMPS(0, 4));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, EQUAL, AF_UNIX, JUMPS(1, 0));
  put_return(builder, ERRNO(EAFNOSUPPORT));
  put_return(builder, SECCOMP_RET_ALLOW);
  put(builder, EQUAL, __NR_socket, JUMPS(0, 9 + INTERNET_STEPS));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, EQUAL, AF_UNIX, JUMPS(5, 0));
  put(builder, EQUAL, AF_INET, JUMPS(6, 0));
  put(builder, EQUAL, AF_INET6, JUMPS(5, 0));
  put(builder, EQUAL, AF_NETLINK, JUMPS(0, 3));
  put(builder, LOAD, ARGUMENT(2), 0);
  put(builder, EQUAL, 0 /* NETLINK_ROUTE */, JUMPS(0, 1));
  put_return(builder, SECCOMP_RET_ALLOW);
  put_return(builder, ERRNO(EAFNOSUPPORT));
  put_internet_socket(builder);
}

/* A sandbox inside the sandbox filters calls, too: see nesting.h for what bounds it. Listeners are for who supervises others. */
static void put_own_filters(struct builder *builder) {
  put(builder, EQUAL, __NR_seccomp, JUMPS(0, 6));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, EQUAL, SECCOMP_SET_MODE_FILTER, JUMPS(0, 3));
  put(builder, LOAD, ARGUMENT(1), 0);
  put(builder, BPF_JMP | BPF_JSET | BPF_K, ~OWN_FILTER_FLAGS, JUMPS(0, 1));
  put_return(builder, ERRNO(EINVAL));
  put_return(builder, SECCOMP_RET_ALLOW);
  put(builder, EQUAL, __NR_prctl, JUMPS(0, 1));
  put_return(builder, SECCOMP_RET_ALLOW);
}

/*
 * The old interfaces of netfilter and IPVS, which whoever has a network namespace of his own is let through to, and which have
 * been a way into the kernel more than once. The new one, of nf_tables, is a family of netlink that nobody gets.
 */
static void put_no_netfilter(struct builder *builder, uint32_t number) {
  static const uint32_t options[] = {64, 65, 96, 97, 128, 129};
  enum { COUNT = sizeof options / sizeof options[0], IPVS = 1024 };
  put(builder, EQUAL, number, JUMPS(0, COUNT + 7));
  put(builder, LOAD, ARGUMENT(1), 0);
  put(builder, EQUAL, IPPROTO_IP, JUMPS(1, 0));
  put(builder, EQUAL, IPPROTO_IPV6, JUMPS(0, COUNT + 3));
  put(builder, LOAD, ARGUMENT(2), 0);
  put(builder, BPF_JMP | BPF_JGE | BPF_K, IPVS, JUMPS(COUNT, 0));
  for (unsigned i = 0; i < COUNT; i++) put(builder, EQUAL, options[i], JUMPS(COUNT - 1 - i, i + 1 == COUNT ? 1 : 0));
  put_return(builder, ERRNO(ENOPROTOOPT));
  put(builder, LOAD, offsetof(struct seccomp_data, nr), 0);
}

/*
 * No programs of a sandbox in the kernel. Classic BPF is compiled into memory that the whole machine has a fixed amount
 * of (net.core.bpf_jit_limit) and that no control group counts, and without it no sandbox's own filter can be loaded.
 * A process may have 32,768 instructions of seccomp and each socket some thousand more, so no count of processes bounds
 * it. Seccomp answers like a kernel built without filters, which whoever confines itself is prepared for.
 */
static void put_filters(struct builder *builder, const struct seccomp_options *wanted) {
  static const uint32_t options[] = {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF,
                                     SO_ATTACH_REUSEPORT_EBPF};
  enum { COUNT = sizeof options / sizeof options[0] };
  put(builder, EQUAL, __NR_setsockopt, JUMPS(0, COUNT + 5));
  put(builder, LOAD, ARGUMENT(1), 0);
  put(builder, EQUAL, SOL_SOCKET, JUMPS(0, COUNT + 1));
  put(builder, LOAD, ARGUMENT(2), 0);
  for (unsigned i = 0; i < COUNT; i++) put(builder, EQUAL, options[i], JUMPS(COUNT - i, 0));
  put_return(builder, SECCOMP_RET_ALLOW);
  put_return(builder, ERRNO(EPERM));
  if (wanted->permits_nesting || wanted->permits_own_filters) {
    put_own_filters(builder);
    return;
  }
  put(builder, EQUAL, __NR_prctl, JUMPS(0, 6));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, EQUAL, PR_SET_SECCOMP, JUMPS(0, 3));
  put(builder, LOAD, ARGUMENT(1), 0);
  put(builder, EQUAL, SECCOMP_MODE_FILTER, JUMPS(0, 1));
  put_return(builder, ERRNO(EINVAL));
  put_return(builder, SECCOMP_RET_ALLOW);
  unsigned more = wanted->permits_listener + wanted->permits_filter;
  if (more > 0) more += 2;
  put(builder, EQUAL, __NR_seccomp, JUMPS(0, 4 + more));
  put(builder, LOAD, ARGUMENT(0), 0);
  put(builder, EQUAL, SECCOMP_SET_MODE_FILTER, JUMPS(0, 1 + more));
  if (more > 0) {
    put(builder, LOAD, ARGUMENT(1), 0);
    put(builder, BPF_ALU | BPF_AND | BPF_K, wanted->permits_listener ? ~WAIT_KILLABLE : ~0U, 0);
  }
  /* One for each process and its descendants: the kernel refuses a second listener. */
  if (wanted->permits_listener) put(builder, EQUAL, SECCOMP_FILTER_FLAG_NEW_LISTENER, JUMPS(wanted->permits_filter ? 2 : 1, 0));
  if (wanted->permits_filter) put(builder, EQUAL, 0, JUMPS(1, 0));
  put_return(builder, ERRNO(EINVAL));
  put_return(builder, SECCOMP_RET_ALLOW);
}

static void put_personality(struct builder *builder) {
  enum { COUNT = sizeof personalities / sizeof personalities[0] };
  put(builder, EQUAL, __NR_personality, JUMPS(0, COUNT + 3));
  put(builder, LOAD, ARGUMENT(0), 0);
  for (unsigned i = 0; i < COUNT; i++) put(builder, EQUAL, personalities[i], JUMPS(COUNT - i, 0));
  put_return(builder, ERRNO(EPERM));
  put_return(builder, SECCOMP_RET_ALLOW);
}

static void put_pretended_chown(struct builder *builder) {
  static const uint32_t numbers[] = {
#ifdef __NR_chown
      __NR_chown, __NR_lchown,
#endif
      __NR_fchown, __NR_fchownat};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    put(builder, EQUAL, numbers[i], JUMPS(0, 1));
    put_return(builder, ERRNO(0));
  }
}

static int by_number(const void *left, const void *right) {
  const struct rule *a = left;
  const struct rule *b = right;
  return a->number < b->number ? -1 : a->number > b->number;
}

/*
 * What a sandbox inside the sandbox is built with. In here nobody has the rights for them, outside of a user namespace that he made. The
 * newer calls for mounts stay closed, as if the kernel had none: programs fall back to mount(2).
 */
static const uint32_t nested[] = {__NR_mount, __NR_umount2, __NR_pivot_root, __NR_sethostname, __NR_setdomainname};
static const uint32_t newer[] = {__NR_open_tree, __NR_move_mount, __NR_fsopen,        __NR_fsconfig,
                                 __NR_fsmount,   __NR_fspick,     __NR_mount_setattr, 467 /* open_tree_attr */};

static uint32_t nested_action(struct rule rule) {
  for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
    if (rule.number == nested[i]) return SECCOMP_RET_ALLOW;
  }
  for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++) {
    if (rule.number == newer[i]) return ERRNO(ENOSYS);
  }
  return rule.action;
}

/* Runs of consecutive numbers with one action, from low to high: two comparisons each. */
static void put_table(struct builder *builder, bool permits_nesting) {
  struct rule sorted[RULES];
  for (size_t i = 0; i < RULES; i++) {
    sorted[i] = table[i];
    if (permits_nesting) sorted[i].action = nested_action(table[i]);
  }
  qsort(sorted, RULES, sizeof sorted[0], by_number);
  for (size_t first = 0; first < RULES;) {
    size_t last = first;
    while (last + 1 < RULES && sorted[last + 1].action == sorted[first].action &&
           sorted[last + 1].number <= sorted[last].number + 1) {
      last++;
    }
    put(builder, BPF_JMP | BPF_JGT | BPF_K, sorted[last].number, JUMPS(3, 0));
    put(builder, BPF_JMP | BPF_JGE | BPF_K, sorted[first].number, JUMPS(0, 1));
    put_return(builder, sorted[first].action);
    put_return(builder, ERRNO(ENOSYS));
    first = last + 1;
  }
  put_return(builder, ERRNO(ENOSYS));
}

size_t seccomp_build(struct sock_filter *program, size_t max, const struct seccomp_options *options) {
  struct builder builder = {.program = program, .max = max};
  put(&builder, LOAD, offsetof(struct seccomp_data, arch), 0);
  put(&builder, EQUAL, OWN_ARCHITECTURE, JUMPS(1, 0));
  put_return(&builder, SECCOMP_RET_KILL_PROCESS);
  put(&builder, LOAD, offsetof(struct seccomp_data, nr), 0);
  uint32_t namespaces = NAMESPACE_FLAGS;
  if (options->permits_nesting) namespaces = options->permits_group_namespaces ? 0 : CLONE_NEWCGROUP;
  put_no_namespaces(&builder, __NR_clone, namespaces);
  put_no_namespaces(&builder, __NR_unshare, namespaces | CLONE_NEWTIME_FLAG);
  if (options->permits_nesting) {
    put_no_netfilter(&builder, __NR_setsockopt);
    put_no_netfilter(&builder, __NR_getsockopt);
  }
  put_socket(&builder);
  put_filters(&builder, options);
  put_personality(&builder);
  if (options->pretends_chown) put_pretended_chown(&builder);
  put_table(&builder, options->permits_nesting);
  return builder.used <= max ? builder.used : 0;
}

int seccomp_file(const struct seccomp_options *options) {
  struct sock_filter program[SECCOMP_PROGRAM_MAX];
  size_t count = seccomp_build(program, SECCOMP_PROGRAM_MAX, options);
  if (count == 0) {
    errno = E2BIG;
    return -1;
  }
  return memory_file("squash-seccomp", program, count * sizeof program[0]);
}
