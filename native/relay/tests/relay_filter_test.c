/* What a relay that is taken over can't do: each call in a child of its own, which the filter ends. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "relay/relay.h"
#include "tests/check.h"

static int sockets[2];
static struct sockaddr_in somewhere = {.sin_family = AF_INET};

static void raw(long number, long a, long b, long c) { (void)syscall(number, a, b, c, 0, 0, 0); }

static void make_socket(void) { raw(SYS_socket, AF_INET, SOCK_STREAM, 0); }
static void connect_somewhere(void) { raw(SYS_connect, sockets[0], (long)&somewhere, sizeof somewhere); }
static void bind_somewhere(void) { raw(SYS_bind, sockets[0], (long)&somewhere, sizeof somewhere); }
static void listen_here(void) { raw(SYS_listen, sockets[0], 1, 0); }
static void open_file(void) { raw(SYS_openat, AT_FDCWD, (long)"/etc/passwd", O_RDONLY); }
static void execute(void) { raw(SYS_execve, (long)"/bin/true", 0, 0); }
static void fork_child(void) { raw(SYS_clone, SIGCHLD, 0, 0); }
static void kill_parent(void) { raw(SYS_kill, getppid(), SIGTERM, 0); }
static void trace(void) { raw(SYS_ptrace, 16, getppid(), 0); }
static void enter_namespace(void) { raw(SYS_setns, sockets[0], 0, 0); }
static void become_root(void) { raw(SYS_setuid, 0, 0, 0); }
static void duplicate(void) { raw(SYS_dup, sockets[0], 0, 0); }
static void read_memory(void) { raw(SYS_process_vm_readv, getppid(), 0, 0); }
static void map_code(void) { (void)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void make_code(void) { raw(SYS_mprotect, 0, 4096, PROT_EXEC); }
static void send_to_address(void) {
  (void)syscall(SYS_sendto, sockets[0], "", 0, 0, &somewhere, sizeof somewhere);
}
static void connect_by_sending(void) { (void)syscall(SYS_sendto, sockets[0], "", 0, MSG_FASTOPEN, NULL, 0); }
static void connect_by_message(void) { raw(SYS_sendmsg, sockets[0], 0, MSG_FASTOPEN); }
static void set_ip_option(void) { (void)syscall(SYS_setsockopt, sockets[0], IPPROTO_IP, 1, "", 0); }
static void set_flag(void) { raw(SYS_fcntl, sockets[0], F_SETFL, O_DIRECT); }
static void set_ip6_option(void) { (void)syscall(SYS_setsockopt, sockets[0], IPPROTO_IPV6, 1, "", 0); }

static void allowed(void) {
  char byte;
  (void)syscall(SYS_sendto, sockets[0], "x", 1, MSG_NOSIGNAL, NULL, 0);
  (void)syscall(SYS_recvfrom, sockets[1], &byte, 1, MSG_DONTWAIT, NULL, NULL);
  (void)syscall(SYS_setsockopt, sockets[0], SOL_SOCKET, SO_LINGER, "", 0);
  raw(SYS_fcntl, sockets[0], F_SETPIPE_SZ, 65536);
  (void)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The signal that ended the child, 0 where it ended by itself, -1 where it could not be confined. */
static int end_of(void (*attempt)(void)) {
  struct relay_identity identity = {.keeps_id = true, .network_fd = -1};
  pid_t child = fork();
  int status = 0;
  if (child == 0) {
    if (relay_confine(&identity) != 0) _exit(9);
    attempt();
    raw(SYS_exit_group, 0, 0, 0); /* _exit would have the sanitizer make a call of its own. */
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  return WEXITSTATUS(status) == 0 ? 0 : -1;
}

int main(void) {
  static void (*const attempts[])(void) = {
      make_socket,    connect_somewhere,  bind_somewhere,     listen_here,   open_file,      execute,
      fork_child,     kill_parent,        trace,              enter_namespace, become_root,  duplicate,
      read_memory,    map_code,           make_code,          send_to_address, connect_by_sending,
      connect_by_message, set_ip_option,  set_ip6_option, set_flag};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  CHECK(end_of(allowed) == 0);
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    int ended = end_of(attempts[i]);
    CHECK(ended == SIGSYS);
    if (ended != SIGSYS) (void)fprintf(stderr, "attempt %zu ended with %d\n", i, ended);
  }
  return check_summary();
}
