/*
 * A monitor that somebody has taken over, by each of the names that the VM module's programs have. It does what the daemon waits for and
 * has no guest: its commands run where the monitor runs.
 *
 *   mke2fs …              makes an empty file
 *   vhost-device-vsock …  listens where it should
 *   qemu-system-x86_64 …  hands the guest's connections to `/squash-init`, which it starts. Where there is a program `/lies/TYPE`, with
 *                         the number of a first frame's type, that gets the connection instead, behind that frame, as its 0 and 1.
 *                         `/lies/control` is run for each connection to its control socket, as its 0 and 1.
 *                         `/lies/boot` is run before the guest is told to be ready. As a machine that is to be copied it ends at once,
 *                         so that there is no template and it is started as one that boots.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUEST "/dev/shm/v.sock"
#define INIT "/dev/shm/init.sock"
#define CONTROL "/dev/shm/qmp.sock"

static struct sockaddr_un named(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  return address;
}

static void check(bool is_fine, const char *what) {
  if (is_fine) return;
  perror(what);
  exit(1);
}

static int listener(const char *path) {
  struct sockaddr_un address = named(path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  (void)unlink(path);
  check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1024) == 0, path);
  return fd;
}

static int dial(const char *path) {
  struct sockaddr_un address = named(path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, path);
  return fd;
}

static const char *option(char **words, const char *name) {
  for (; words[0] != NULL && words[1] != NULL; words++) {
    if (strcmp(words[0], name) == 0) return words[1];
  }
  return "/nothing";
}

static void put(int fd, const uint8_t *bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t sent = send(fd, bytes + done, length - done, MSG_NOSIGNAL);
    if (sent <= 0) _exit(0);
    done += (size_t)sent;
  }
}

/* No half-close is passed on, as in vhost-device-vsock. */
static void pump(int one, int other) {
  static uint8_t bytes[65536];
  for (;;) {
    struct pollfd ends[] = {{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    if (poll(ends, 2, -1) < 0) return;
    for (int i = 0; i < 2; i++) {
      if (ends[i].revents == 0) continue;
      ssize_t got = recv(ends[i].fd, bytes, sizeof bytes, 0);
      if (got <= 0) return;
      put(ends[1 - i].fd, bytes, (size_t)got);
    }
  }
}

static void serve(int fd) {
  char line[64] = "", lie[32];
  static uint8_t header[8], payload[262144];
  unsigned port;
  ssize_t got = recv(fd, line, sizeof line - 1, 0);
  if (got <= 0 || sscanf(line, "CONNECT %u", &port) != 1) return;
  put(fd, (const uint8_t *)"OK 1024\n", 8);
  if (recv(fd, header, sizeof header, MSG_WAITALL) != sizeof header) return;
  uint32_t length = (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16;
  (void)snprintf(lie, sizeof lie, "/lies/%u", header[4]);
  if (access(lie, X_OK) != 0) {
    int init = dial(INIT);
    put(init, header, sizeof header);
    pump(fd, init);
    return;
  }
  if (length > sizeof payload || (length > 0 && recv(fd, payload, length, MSG_WAITALL) != (ssize_t)length)) return;
  check(dup2(fd, 0) == 0 && dup2(fd, 1) == 1, "dup2");
  char *const words[] = {lie, NULL};
  (void)execv(lie, words);
  _exit(127);
}

static void start_init(void) {
  int fd = listener(INIT);
  if (fork() == 0) {
    check(dup2(fd, 3) == 3, "dup2");
    (void)execl("/squash-init", "squash-init", "--listen-fd", "3", (char *)NULL);
    _exit(127);
  }
  (void)close(fd);
}

static void start_control(void) {
  int control = listener(CONTROL);
  if (fork() != 0) {
    (void)close(control);
    return;
  }
  (void)signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int fd = accept(control, NULL, NULL);
    if (fd >= 0 && fork() == 0) {
      (void)signal(SIGCHLD, SIG_DFL);
      check(dup2(fd, 0) == 0 && dup2(fd, 1) == 1, "dup2");
      (void)execl("/lies/control", "/lies/control", (char *)NULL);
      _exit(127);
    }
    (void)close(fd);
  }
}

static void machine(void) {
  int guest = listener(GUEST);
  start_init();
  start_control();
  if (access("/lies/boot", X_OK) == 0) (void)!system("/lies/boot");
  /* Whoever lies may have said it before. */
  if (fork() == 0) _exit(dial(GUEST "_1") < 0);
  for (;;) {
    int fd = accept(guest, NULL, NULL);
    if (fd < 0) continue;
    if (fork() == 0) {
      (void)close(guest);
      (void)signal(SIGCHLD, SIG_DFL);
      serve(fd);
      _exit(0);
    }
    (void)close(fd);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
  }
}

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/');
  name = name == NULL ? argv[0] : name + 1;
  if (strcmp(name, "mke2fs") == 0) {
    int fd = open(argv[argc - 2], O_WRONLY | O_CREAT, 0600);
    check(fd >= 0 && ftruncate(fd, 1 << 20) == 0, argv[argc - 2]);
  } else if (strcmp(name, "vhost-device-vsock") == 0) {
    (void)listener(option(argv, "--socket"));
    for (;;) (void)pause();
  } else if (strstr(option(argv, "-append"), "squash.copied=") != NULL) {
    return 1;
  } else {
    machine();
  }
  return 0;
}
