/* What the kernel has once for the whole machine, or counts against nobody: taking it takes it from all others. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog program = {1, allow_all};

/* `socket-filter OPTION`: classic BPF on a socket, which is compiled into memory of the whole machine. */
static int socket_filter(int argc, char **argv) {
  if (argc < 2) return 2;
  int option = strcmp(argv[1], "reuseport") == 0 ? SO_ATTACH_REUSEPORT_CBPF : SO_ATTACH_FILTER;
  int own = socket(AF_INET, SOCK_DGRAM, 0);
  int on = 1;
  if (own < 0 || setsockopt(own, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) return untried("no socket");
  return refused("a filter of a socket", setsockopt(own, SOL_SOCKET, option, &program, sizeof program));
}

/* `seccomp-filter prctl|seccomp|listener` */
static int seccomp_filter(int argc, char **argv) {
  if (argc < 2) return 2;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return untried("no_new_privs: %s", strerror(errno));
  long result;
  if (strcmp(argv[1], "prctl") == 0) {
    result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
  } else {
    unsigned flags = strcmp(argv[1], "listener") == 0 ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  }
  /* As a kernel built without filters says it. */
  if (result < 0 && errno == EINVAL) return held("seccomp filters are absent");
  return refused("a seccomp filter", result);
}

/* `fill-filters COUNT`: as many filters of the greatest length on one process. */
static int fill_filters(int argc, char **argv) {
  if (argc < 2) return 2;
  static struct sock_filter long_program[BPF_MAXINSNS];
  for (size_t i = 0; i < BPF_MAXINSNS; i++) long_program[i] = allow_all[0];
  struct sock_fprog whole = {BPF_MAXINSNS, long_program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return untried("no_new_privs: %s", strerror(errno));
  long wanted = count_of(argv[1]);
  for (long i = 0; i < wanted; i++) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0) != 0) return held("%ld filters, then: %s", i, strerror(errno));
  }
  return breach("%ld filters of %d instructions", wanted, BPF_MAXINSNS);
}

/* `netfilter OPTION`: the old tables, of a network namespace of one's own. */
static int ask_netfilter(int argc, char **argv) {
  if (argc < 2) return 2;
  char info[84] = "filter";
  socklen_t length = sizeof info;
  int option = (int)count_of(argv[1]);
  int own = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (own < 0) own = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
  if (own < 0) own = socket(AF_INET, SOCK_DGRAM, 0);
  if (own < 0) return held("socket: %s", strerror(errno));
  if (getsockopt(own, IPPROTO_IP, option, info, &length) == 0) return breach("the tables of netfilter answered");
  if (errno != ENOPROTOOPT) return breach("netfilter was asked, and said: %s", strerror(errno));
  if (setsockopt(own, IPPROTO_IP, option, info, length) == 0 || errno != ENOPROTOOPT) {
    return breach("netfilter was told, and said: %s", strerror(errno));
  }
  return held("there is no netfilter");
}

/* A trigger of the machine's pressure: the kernel works for it, and its end waits for that. */
static int pressure_trigger(int argc, char **argv) {
  (void)argc, (void)argv;
  static const char trigger[] = "some 500000 2000000";
  int file = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK);
  if (file < 0) return held("/proc/pressure/memory: %s", strerror(errno));
  if (write(file, trigger, sizeof trigger) < 0) return held("trigger: %s", strerror(errno));
  return breach("a trigger of the machine's pressure");
}

/*
 * One socket as full as it gets: the kernel answers a message it does not know with an error that holds the whole
 * message, and keeps that until somebody reads it. Returns its bytes, -1 without a socket.
 */
static long fill_netlink(void) {
  static struct {
    struct nlmsghdr header;
    char bytes[100000];
  } message;
  int own = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (own < 0) return -1;
  int size = 64 * 1024 * 1024;
  setsockopt(own, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  message.header = (struct nlmsghdr){
      .nlmsg_len = sizeof message, .nlmsg_type = 0xfff, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
  long sent = 0;
  for (int i = 0; i < 8; i++) {
    if (send(own, &message, sizeof message, MSG_DONTWAIT) < 0) break;
    sent += (long)sizeof message;
  }
  /* What the kernel itself says that this socket holds. */
  uint32_t memory[16] = {0};
  socklen_t length = sizeof memory;
  if (getsockopt(own, SOL_SOCKET, 55 /* SO_MEMINFO */, memory, &length) == 0) return (long)memory[0];
  return sent;
}

/* `netlink MEBIBYTES`: held in unread answers. */
static int hold_netlink(int argc, char **argv) {
  if (argc < 2) return 2;
  long wanted = count_of(argv[1]) * 1024 * 1024;
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  long total = 0;
  long sockets = 0;
  while (total < wanted) {
    long bytes = fill_netlink();
    if (bytes < 0) return held("%ld bytes in %ld sockets, then: %s", total, sockets, strerror(errno));
    if (bytes == 0) return untried("an unread answer holds nothing");
    total += bytes;
    sockets++;
  }
  return breach("%ld bytes in %ld netlink sockets", total, sockets);
}

const struct attack shared_attacks[] = {
    {"socket-filter", socket_filter},
    {"seccomp-filter", seccomp_filter},
    {"pressure-trigger", pressure_trigger},
    {"netlink", hold_netlink},
    {"fill-filters", fill_filters},
    {"netfilter", ask_netfilter},
    {0},
};
