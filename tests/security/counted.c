/* Takes every inotify instance and queues every signal it gets, prints both counts, and leaves a child that keeps them. */
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(void) {
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
