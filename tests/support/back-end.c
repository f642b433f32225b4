/*
 * Stands where a VMM and its vsock back end stand in a sandbox: `back-end GUEST CONTROL`.
 *
 * At CONTROL it takes lines and answers `done`: `ready` connects to `GUEST_1` as a guest does that has started, `say TEXT` and
 * `flood KIB` write to the console,
 * `memory KIB` connects to `CONTROL_memory` and writes there, `rights` tells of its own, `orphan` leaves one behind, `asked` says how often port
 * 1024 was asked for, `hang up` ends the last stream of that, `end CODE` ends it.
 * At GUEST it speaks the CONNECT protocol, and takes a request only as one piece:
 *   port 1024 echoes; 1025 is refused twice, then as 1024; 1026 says something together with OK; 1027 answers something else than OK;
 *   1028 takes the connection and is silent; 1029 sends 1 MB and closes
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un named(const char *path, const char *suffix) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s%s", path, suffix);
  return address;
}

static int listener(const char *path) {
  struct sockaddr_un address = named(path, "");
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)unlink(path);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0) {
    perror(path);
    exit(1);
  }
  return fd;
}

static void put(int fd, const char *text) {
  if (write(fd, text, strlen(text)) < 0) _exit(0);
}

static void echo(int fd) {
  static char bytes[65536];
  for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;) {
    for (ssize_t done = 0, put; done < got; done += put) {
      put = write(fd, bytes + done, (size_t)(got - done));
      if (put < 0) return;
    }
  }
}

/* Of port 1024. */
static unsigned asked;
static pid_t last;

static void guest(int fd) {
  static unsigned refusals;
  static char megabyte[1 << 20];
  char request[64] = "";
  unsigned port = 0;
  char end = 0;
  ssize_t got = read(fd, request, sizeof request - 1);
  if (got <= 0 || sscanf(request, "CONNECT %u%c", &port, &end) != 2 || end != '\n') return;
  if (port == 1025 && refusals++ < 2) return;
  pid_t pid = fork();
  if (pid != 0 && port == 1024) {
    asked++;
    last = pid;
  }
  if (pid != 0) return;
  if (port == 1024 || port == 1025) put(fd, "OK 1073741824\n");
  else if (port == 1026) put(fd, "OK 1026\nearly");
  else if (port == 1027) put(fd, "NO 1027\n");
  else if (port == 1029) put(fd, "OK 1029\n");
  if (port == 1029) {
    memset(megabyte, 'x', sizeof megabyte);
    for (size_t done = 0; done < sizeof megabyte;) {
      ssize_t some = write(fd, megabyte + done, sizeof megabyte - done);
      if (some <= 0) break;
      done += (size_t)some;
    }
  } else if (port == 1028) {
    (void)pause();
  } else {
    echo(fd);
  }
  _exit(0);
}

static void tell_rights(void) {
  char line[256];
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "Cap", 3) == 0 || strncmp(line, "SigBlk", 6) == 0) (void)fputs(line, stdout);
  }
  for (int fd = 0; fd < 64; fd++) {
    char path[32], where[128];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, where, sizeof where);
    if (length > 0) (void)printf("fd %d %.*s\n", fd, (int)length, where);
  }
}

static void ready(const char *guest_path) {
  struct sockaddr_un address = named(guest_path, "_1");
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)connect(fd, (struct sockaddr *)&address, sizeof address);
  (void)close(fd);
}

static void give_memory(const char *control_path, int kib) {
  static char page[1024];
  struct sockaddr_un address = named(control_path, "_memory");
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  memset(page, 'm', sizeof page);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) perror("memory");
  for (int i = 0; i < kib; i++) {
    if (write(fd, page, sizeof page) != (ssize_t)sizeof page) break;
  }
  (void)close(fd);
}

static void leave_orphan(void) {
  if (fork() != 0) return;
  if (fork() == 0) {
    (void)usleep(50000);
    (void)puts("orphan");
    (void)fflush(stdout);
  }
  _exit(0);
}

static void control(const char *line, const char *const *paths) {
  if (strcmp(line, "ready\n") == 0) {
    ready(paths[0]);
  } else if (strncmp(line, "memory ", 7) == 0) {
    give_memory(paths[1], atoi(line + 7));
  } else if (strncmp(line, "say ", 4) == 0) {
    (void)fputs(line + 4, stdout);
  } else if (strncmp(line, "flood ", 6) == 0) {
    for (int i = atoi(line + 6) * 16; i > 0; i--) (void)printf("%-63d\n", i);
  } else if (strcmp(line, "rights\n") == 0) {
    tell_rights();
  } else if (strcmp(line, "asked\n") == 0) {
    (void)printf("asked %u times\n", asked);
  } else if (strcmp(line, "hang up\n") == 0) {
    (void)kill(last, SIGKILL);
  } else if (strcmp(line, "orphan\n") == 0) {
    leave_orphan();
  } else if (strncmp(line, "end ", 4) == 0) {
    exit(atoi(line + 4));
  }
  (void)fflush(stdout);
}

/* One line comes as one piece, and the next after the answer. False: it is over. */
static bool hear(int fd, const char *const *paths) {
  char line[128] = "";
  if (read(fd, line, sizeof line - 1) <= 0) return false;
  control(line, paths);
  put(fd, "done\n");
  return true;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  (void)signal(SIGCHLD, SIG_IGN);
  (void)signal(SIGPIPE, SIG_IGN);
  const char *const paths[] = {argv[1], argv[2]};
  struct pollfd all[] = {{.fd = listener(argv[1]), .events = POLLIN}, {.fd = listener(argv[2]), .events = POLLIN}, {.fd = -1, .events = POLLIN}};
  (void)puts("back end listens");
  (void)fflush(stdout);
  for (;;) {
    if (poll(all, 3, -1) < 0) continue;
    if (all[2].revents != 0 && !hear(all[2].fd, paths)) {
      (void)close(all[2].fd);
      all[2].fd = -1;
    }
    if (all[1].revents != 0 && all[2].fd < 0) {
      all[2].fd = accept4(all[1].fd, NULL, NULL, SOCK_CLOEXEC);
      put(all[2].fd, "hello\n");
    }
    if (all[0].revents == 0) continue;
    int fd = accept4(all[0].fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) guest(fd);
    (void)close(fd);
  }
}
