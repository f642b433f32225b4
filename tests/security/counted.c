/*
 * Without words: takes every inotify instance and queues every signal it gets, prints both counts, and leaves a child
 * that keeps them. `sockets N`: sends datagrams to N sockets that nobody reads, and prints how many bytes they hold.
 * `pipes`: takes pipes of a mebibyte until the kernel gives no more of that size, prints how many, and leaves a child that
 * keeps them.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

static int fill_sockets(int count) {
  static char bytes[60000];
  long held = 0;
  int *sockets = calloc((size_t)count, sizeof *sockets);
  for (int i = 0; i < count; i++) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(sockets[i], (struct sockaddr *)&address, size) != 0) return 1;
    getsockname(sockets[i], (struct sockaddr *)&address, &size);
    for (int j = 0; j < 4; j++) sendto(sockets[i], bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&address, size);
  }
  for (int i = 0; i < count; i++) {
    for (ssize_t got; (got = recv(sockets[i], bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) held += got;
  }
  return printf("%ld\n", held) < 0;
}

static int take_pipes(void) {
  int answer[2];
  int count = 0;
  int ends[2];
  if (pipe(answer) != 0) return 1;
  if (fork() == 0) {
    while (count < 400 && pipe(ends) == 0 && fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) >= 0) count++;
    if (write(answer[1], &count, sizeof count) != sizeof count) return 1;
    for (int fd = 0; fd < 3; fd++) close(fd);
    for (;;) pause();
  }
  if (read(answer[0], &count, sizeof count) != sizeof count) return 1;
  return printf("%d\n", count) < 0;
}

int main(int argc, char **argv) {
  if (argc == 2) return take_pipes();
  if (argc == 3) return fill_sockets(atoi(argv[2]));
  int pipe_ends[2];
  int counts[2] = {0, 0};
  if (pipe(pipe_ends) != 0) return 1;
  if (fork() == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    while (inotify_init() >= 0) counts[0]++;
    while (sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0}) == 0) counts[1]++;
    if (write(pipe_ends[1], counts, sizeof counts) != sizeof counts) return 1;
    for (int fd = 0; fd < 3; fd++) close(fd);
    for (;;) pause();
  }
  if (read(pipe_ends[0], counts, sizeof counts) != sizeof counts) return 1;
  return printf("%d %d\n", counts[0], counts[1]) < 0;
}
