/*
 * The floor of a command in a microVM, in its guest: `vsock-echo serve PORT` answers each byte of a connection of the host by one;
 * `vsock-echo spawn COUNT` starts `/bin/true` so often and prints the median of the milliseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

static double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compare(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return a < b ? -1 : a > b;
}

static int serve(unsigned port) {
  struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port};
  int listener = socket(AF_VSOCK, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 8) != 0) return 1;
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    char byte;
    while (fd >= 0 && read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1) {
    }
    if (fd >= 0) (void)close(fd);
  }
}

static int time_spawns(unsigned count) {
  static double took[1000];
  char program[] = "/bin/true", *words[] = {program, NULL}, *none[] = {NULL};
  if (count == 0 || count > 1000) return 2;
  for (unsigned i = 0; i < count; i++) {
    double began = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
      (void)execve(program, words, none);
      _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
    took[i] = now_ms() - began;
  }
  qsort(took, count, sizeof took[0], compare);
  return printf("%.3f\n", took[count / 2]) < 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  unsigned number = (unsigned)strtoul(argv[2], NULL, 10);
  return strcmp(argv[1], "serve") == 0 ? serve(number) : time_spawns(number);
}
