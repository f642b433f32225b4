/* New namespaces and those of others: each would give back what the sandbox took. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct kind {
  const char *name;
  unsigned flag;
};

static const struct kind kinds[] = {
    {"user", CLONE_NEWUSER},     {"mnt", CLONE_NEWNS}, {"net", CLONE_NEWNET},       {"pid", CLONE_NEWPID},
    {"uts", CLONE_NEWUTS},       {"ipc", CLONE_NEWIPC}, {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80},
};

static unsigned flag_of(const char *name) {
  for (size_t index = 0; index < sizeof kinds / sizeof kinds[0]; index++) {
    if (strcmp(kinds[index].name, name) == 0) return kinds[index].flag;
  }
  fprintf(stderr, "no namespace is called %s\n", name);
  exit(2);
}

static int unshare_one(int argc, char **argv) {
  if (argc < 2) return 2;
  return refused("unshare", unshare((int)flag_of(argv[1])));
}

static int child_outcome(const char *what, long child) {
  if (child == 0) _exit(0);
  int error = errno;
  if (child > 0) waitpid((pid_t)child, NULL, 0);
  errno = error;
  return refused(what, child);
}

static int clone_one(int argc, char **argv) {
  if (argc < 2) return 2;
  return child_outcome("clone", syscall(SYS_clone, (unsigned long)(flag_of(argv[1]) | SIGCHLD), 0, 0, 0, 0));
}

/* The flags of clone3 lie in memory, where a filter can't look. */
static int clone3_one(int argc, char **argv) {
  if (argc < 2) return 2;
  struct {
    uint64_t flags, pidfd, child, parent, signal, stack, stack_size, tls;
  } arguments = {.flags = flag_of(argv[1]), .signal = SIGCHLD};
  return child_outcome("clone3", syscall(435, &arguments, sizeof arguments));
}

/* High bits that the kernel ignores must not hide a flag from the filter. */
static int clone_hidden(int argc, char **argv) {
  (void)argc, (void)argv;
  unsigned long flags = 0xdead00000000UL | CLONE_NEWUSER | SIGCHLD;
  return child_outcome("clone", syscall(SYS_clone, flags, 0, 0, 0, 0));
}

static int enter(int argc, char **argv) {
  if (argc < 2) return 2;
  char path[64];
  snprintf(path, sizeof path, "/proc/1/ns/%s", argv[1]);
  int descriptor = open(path, O_RDONLY);
  if (descriptor < 0) return held("%s: %s", path, strerror(errno));
  return refused("setns", setns(descriptor, 0));
}

/* setns to a process takes all its namespaces at once. */
static int enter_process(int argc, char **argv) {
  (void)argc, (void)argv;
  int process = (int)syscall(434, 1, 0);
  if (process < 0) return held("pidfd_open: %s", strerror(errno));
  return refused("setns", setns(process, CLONE_NEWNS | CLONE_NEWNET));
}

/* The parent of one's user namespace, as a descriptor that setns takes. */
static int parent_namespace(int argc, char **argv) {
  (void)argc;
  (void)argv;
  int own = open("/proc/self/ns/user", O_RDONLY);
  if (own < 0) return held("%s", strerror(errno));
  int parent = ioctl(own, 0xb702 /* NS_GET_PARENT */);
  if (parent >= 0) return breach("got the parent user namespace");
  return held("NS_GET_PARENT: %s", strerror(errno));
}

/* As many at once, each held by a process, which are ended again. Returns how many there were; errno says what the next one was told. */
static long hold_namespaces(int flags, long wanted) {
  static pid_t children[4096];
  int said[2];
  int error = 0;
  long made = 0;
  if (pipe(said) != 0) return -1;
  while (made < wanted && made < 4096 && error == 0) {
    children[made] = fork();
    if (children[made] < 0) break;
    if (children[made] == 0) {
      int number = unshare(flags) == 0 ? 0 : errno;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (write(said[1], &number, sizeof number) != sizeof number) _exit(1);
      pause();
      _exit(0);
    }
    made++;
    if (read(said[0], &error, sizeof error) != sizeof error) break;
  }
  for (long i = 0; i < made; i++) kill(children[i], SIGKILL);
  for (long i = 0; i < made; i++) waitpid(children[i], NULL, 0);
  close(said[0]);
  close(said[1]);
  errno = error;
  return error == 0 ? made : made - 1;
}

/* `many-namespaces KIND COUNT` */
static int many_namespaces(int argc, char **argv) {
  if (argc < 3) return 2;
  int flags = CLONE_NEWUSER | (int)flag_of(argv[1]);
  long wanted = count_of(argv[2]);
  long made = hold_namespaces(flags, wanted);
  int error = errno;
  /* The kernel takes its time to be rid of them, and whoever comes next would find no room. */
  for (int tries = 0; made > 0 && tries < 500 && hold_namespaces(flags, 16) < 16; tries++) usleep(10000);
  return made < wanted ? held("%ld, then: %s", made, strerror(error)) : breach("%ld namespaces", made);
}

const struct attack namespace_attacks[] = {
    {"unshare", unshare_one}, {"clone", clone_one},
    {"clone3", clone3_one},   {"clone-hidden", clone_hidden},
    {"setns", enter},         {"setns-process", enter_process},
    {"ns-parent", parent_namespace}, {"many-namespaces", many_namespaces}, {0},
};
