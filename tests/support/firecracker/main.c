/*
 * Stands where Firecracker's program stands, where there is no KVM: the same words on its command line, the same API over its Unix socket,
 * judged as strictly as the real one's description and code say, and a guest of QEMU behind it. It proves what the client asks, in which order
 * and of which form; that a real Firecracker boots it is shown where there is one (SQUASH_FIRECRACKER).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "qemu.h"

enum { HEAD_BYTES_MAX = 4096, BODY_BYTES_MAX = 51200, CONNECTIONS_MAX = 10, BAD_CONFIGURATION = 152, BAD_ARGUMENTS = 153 };
#define INSTANCE_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

static struct machine machine = {.vcpus = 1, .mib = 128};

/* QEMU's end is the machine's; what it said of itself is in its output. */
static void child_ended(int signal) {
  int status;
  (void)signal;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == qemu_process) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
}

static void say(int fd, const char *status, const char *json) {
  char answer[2048];
  int length = json == NULL ? snprintf(answer, sizeof answer, "HTTP/1.1 %s \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n", status)
                            : snprintf(answer, sizeof answer,
                                       "HTTP/1.1 %s \r\nServer: Firecracker API\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       status, strlen(json), json);
  (void)send(fd, answer, (size_t)length, MSG_NOSIGNAL);
}

static void refuse(int fd, const char *fault) {
  char json[1024], *to = json + sprintf(json, "{\"fault_message\":\"");
  for (; *fault != '\0' && to < json + sizeof json - 8; fault++) {
    if (*fault == '"' || *fault == '\\') *to++ = '\\';
    *to++ = *fault < ' ' ? ' ' : *fault;
  }
  (void)strcpy(to, "\"}");
  say(fd, "400", json);
}

static void answer(int fd, const char *method, const char *path, const char *body) {
  static const char *const states[] = {"Not started", "Running", "Paused", "Not started"};
  static struct asked asked;
  char json[256];
  if (strcmp(method, "GET") == 0 && strcmp(path, "/version") == 0) {
    (void)snprintf(json, sizeof json, "{\"firecracker_version\":\"%s\"}", VERSION);
    say(fd, "200", json);
  } else if (strcmp(method, "GET") == 0 && strcmp(path, "/") == 0) {
    (void)snprintf(json, sizeof json, "{\"id\":\"vm\",\"state\":\"%s\",\"vmm_version\":\"%s\",\"app_name\":\"Firecracker\"}",
                   states[machine.state], VERSION);
    say(fd, "200", json);
  } else if (strcmp(method, "PUT") != 0 && strcmp(method, "PATCH") != 0) {
    (void)snprintf(json, sizeof json, "Invalid request method and/or path: %.8s %.100s", method, path);
    refuse(fd, json);
  } else if (body[0] == '\0') {
    (void)snprintf(json, sizeof json, "Empty %.8s request.", method);
    refuse(fd, json);
  } else {
    const char *fault = request_judge(method, path, body, &asked);
    if (fault == NULL) fault = machine_apply(&machine, &asked);
    if (fault == NULL) say(fd, "204", NULL);
    else refuse(fd, fault);
    if (machine.state == LOST) exit(1);
  }
}

/* The number behind a header of that name, 0: there is none. */
static size_t length_in(const char *head) {
  for (const char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
    line += 2;
    if (strncasecmp(line, "content-length:", 15) == 0) return strtoul(line + 15, NULL, 10);
  }
  return 0;
}

/* False: the peer is gone, or what it says is no request. */
static bool serve_one(int fd) {
  static char head[HEAD_BYTES_MAX + 1], body[BODY_BYTES_MAX + 1];
  char method[9], path[256];
  size_t used = 0;
  do {
    ssize_t got = used == HEAD_BYTES_MAX ? 0 : recv(fd, head + used, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    head[++used] = '\0';
  } while (used < 4 || strcmp(head + used - 4, "\r\n\r\n") != 0);
  size_t length = length_in(head), taken = 0;
  if (sscanf(head, "%8s %255s HTTP/1.1\r\n", method, path) != 2 || length > BODY_BYTES_MAX) {
    refuse(fd, "Invalid request");
    return false;
  }
  while (taken < length) {
    ssize_t got = recv(fd, body + taken, length - taken, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    taken += (size_t)got;
  }
  body[length] = '\0';
  answer(fd, method, path, body);
  return true;
}

/* One more than it has room for is told so. */
static void take_in(struct pollfd *polled, nfds_t *count) {
  int fd = accept4(polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  if (*count <= CONNECTIONS_MAX) {
    polled[(*count)++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return;
  }
  say(fd, "503", "{\"error\":\"Too many open connections\"}");
  (void)close(fd);
}

/* Whoever says nothing holds nobody else up: connections are open all at once, and requests are served one at a time. */
static _Noreturn void serve(int listener) {
  struct pollfd polled[1 + CONNECTIONS_MAX] = {{.fd = listener, .events = POLLIN}};
  for (nfds_t count = 1;;) {
    if (poll(polled, count, -1) < 0) continue;
    for (nfds_t i = count - 1; i > 0; i--) {
      if (polled[i].revents == 0 || serve_one(polled[i].fd)) continue;
      (void)close(polled[i].fd);
      polled[i] = polled[--count];
    }
    if (polled[0].revents != 0) take_in(polled, &count);
  }
}

static _Noreturn void bad_arguments(const char *word) {
  (void)fprintf(stderr, "Arguments parsing error: %s\n", word);
  exit(BAD_ARGUMENTS);
}

static const char *api_socket(char **words) {
  static const char levels[] = " Error Warning Info Debug Trace Off ";
  const char *path = "/run/firecracker.socket";
  for (; *words != NULL; words += 2) {
    char level[16];
    if (words[1] == NULL) bad_arguments(words[0]);
    (void)snprintf(level, sizeof level, " %.12s ", words[1]);
    bool is_id = strcmp(words[0], "--id") == 0, is_level = strcmp(words[0], "--level") == 0;
    if (strcmp(words[0], "--api-sock") == 0) path = words[1];
    else if (is_id && (strlen(words[1]) > 64 || strspn(words[1], INSTANCE_CHARACTERS) != strlen(words[1]) || words[1][0] == '\0')) bad_arguments("--id");
    else if (is_level && strstr(levels, level) == NULL) bad_arguments("--level");
    else if (!is_id && !is_level) bad_arguments(words[0]);
  }
  return path;
}

int main(int argc, char **argv) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)argc;
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", api_socket(argv + 1));
  (void)signal(SIGCHLD, child_ended);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 10) != 0) {
    perror(address.sun_path);
    return BAD_CONFIGURATION;
  }
  serve(listener);
}
