/*
 * A function for Node: waits until a call of the command line is handed over, and makes its descriptors and its directory ours.
 *
 * `takeCall(directory, daemonSocket, program, idleMs)` answers with the strings of a call of that program, or with undefined where the
 * daemon ended, nobody came for so long, or another stands by already. `cli/src/box/standby.ts` calls it; the other side is squash-call. It blocks the whole process,
 * which has nothing else to do. The message is described in native/call/call.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "call/call.h"
#include "common/descriptor.h"

/* Node-API keeps its binary form: https://nodejs.org/api/n-api.html */
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
int napi_create_function(napi_env env, const char *name, size_t length, napi_callback callback, void *data,
                         napi_value *result);
int napi_get_cb_info(napi_env env, napi_callback_info info, size_t *count, napi_value *values, napi_value *self,
                     void **data);
int napi_get_value_string_utf8(napi_env env, napi_value value, char *text, size_t bytes, size_t *length);
int napi_get_value_int32(napi_env env, napi_value value, int32_t *number);
int napi_create_string_utf8(napi_env env, const char *text, size_t length, napi_value *result);
napi_value napi_register_module_v1(napi_env env, napi_value exports);

enum { NAPI_OK, PATH_BYTES = 512 };

struct wish {
  char directory[PATH_BYTES];
  char daemon_socket[PATH_BYTES];
  char program[PATH_BYTES];
  int32_t idle_ms;
};

struct call {
  int connection;
  pid_t pid;
  int descriptors[CALL_DESCRIPTORS];
  struct call_head head;
  char *strings;
};

static bool address_of(struct sockaddr_un *address, const char *directory, const char *name) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", directory, name);
  return length > 0 && (size_t)length < sizeof address->sun_path;
}

/* Readable when the daemon has ended: by the process that listens at its socket. */
static int open_daemon(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  cleanup_fd connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0 || strlen(path) >= sizeof address.sun_path) return -1;
  memcpy(address.sun_path, path, strlen(path) + 1);
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0 ||
      getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
    return -1;
  return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

/* One at a time: the lock goes with the process, however it ends. */
static int lock(const char *directory) {
  char path[PATH_BYTES];
  if (snprintf(path, sizeof path, "%s/standby.lock", directory) >= (int)sizeof path) return -1;
  cleanup_fd file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  return file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 ? take_fd(&file) : -1;
}

/* It gets its name when it listens: a refused connection then says that nobody does. */
static int listen_at(const struct sockaddr_un *address, const struct sockaddr_un *before) {
  cleanup_fd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  (void)unlink(before->sun_path);
  if (listener < 0 || bind(listener, (const struct sockaddr *)before, sizeof *before) < 0) return -1;
  if (chmod(before->sun_path, 0600) == 0 && listen(listener, 4) == 0 &&
      rename(before->sun_path, address->sun_path) == 0)
    return take_fd(&listener);
  (void)unlink(before->sun_path);
  return -1;
}

static void close_descriptors(struct call *call) {
  for (int i = 0; i < CALL_DESCRIPTORS; i++) close_fd(&call->descriptors[i]);
}

/* Whether it is somebody whom we can stand in for. */
static bool receive_strings(const char *program, struct call *call) {
  char own[CALLER_BYTES];
  const struct call_head *head = &call->head;
  if (read_whole(call->connection, &call->head, sizeof call->head) != 1) return false;
  if (head->magic != CALL_MAGIC || head->bytes == 0 || head->bytes > CALL_BYTES_MAX) return false;
  call->strings = malloc(head->bytes);
  return call->strings != NULL && read_whole(call->connection, call->strings, head->bytes) == 1 &&
         call->strings[head->bytes - 1] == 0 && describe_caller("/proc/self/exe", program, own, sizeof own) > 0 &&
         strcmp(own, call->strings) == 0;
}

static bool receive_go(struct call *call) {
  union {
    char bytes[CMSG_SPACE(sizeof call->descriptors)];
    struct cmsghdr align;
  } control = {0};
  char go = 0;
  struct iovec part = {.iov_base = &go, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t got = recvmsg(call->connection, &message, MSG_CMSG_CLOEXEC);
  const struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  if (got != 1 || rights == NULL || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return false;
  memcpy(call->descriptors, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
  return go == CALL_GO && rights->cmsg_len == CMSG_LEN(sizeof call->descriptors);
}

static bool receive(const char *program, struct call *call) {
  const struct timeval wait = {.tv_sec = CALL_WAIT_MS / 1000}, none = {0};
  const char taken = CALL_TAKEN;
  int connection = call->connection;
  return setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 &&
         is_own_peer(connection, &call->pid) && receive_strings(program, call) && write_whole(connection, &taken, 1) == 0 &&
         receive_go(call) && setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0;
}

static void drop(struct call *call) {
  close_descriptors(call);
  close_fd(&call->connection);
  free(call->strings);
  call->strings = NULL;
}

/* The first whole call; false where none comes any more. */
static bool wait_for(int listener, int daemon, const struct wish *wish, struct call *call) {
  for (;;) {
    struct pollfd ready[] = {{.fd = listener, .events = POLLIN}, {.fd = daemon, .events = POLLIN}};
    int count = poll(ready, 2, wish->idle_ms);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || ready[1].revents != 0) return false;
    *call = (struct call){.connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC), .descriptors = {-1, -1, -1, -1}};
    if (call->connection >= 0 && receive(wish->program, call)) return true;
    drop(call);
  }
}

/* When the caller is gone we go on, and end, also where we were halted with it. */
static void hear_its_end(int connection) {
  if (fcntl(connection, F_SETOWN, getpid()) != 0 || fcntl(connection, F_SETSIG, SIGCONT) != 0) return;
  (void)fcntl(connection, F_SETFL, fcntl(connection, F_GETFL) | O_ASYNC);
}

static bool stand_in(struct call *call) {
  (void)umask((mode_t)call->head.umask & 0777);
  hear_its_end(call->connection);
  bool done = fchdir(call->descriptors[3]) == 0;
  for (int i = 0; i < 3; i++) done = dup2(call->descriptors[i], i) == i && done;
  close_descriptors(call);
  return done;
}

static bool take(const struct wish *wish, struct call *call) {
  struct sockaddr_un address, before;
  cleanup_fd daemon = open_daemon(wish->daemon_socket);
  if (daemon < 0) return false;
  cleanup_fd locked = lock(wish->directory);
  if (locked < 0) return false;
  if (!address_of(&address, wish->directory, "standby.sock") || !address_of(&before, wish->directory, "standby.new")) return false;
  cleanup_fd listener = listen_at(&address, &before);
  if (listener < 0) return false;
  bool taken = wait_for(listener, daemon, wish, call);
  (void)unlink(address.sun_path);
  if (taken && stand_in(call)) return true;
  if (taken) drop(call);
  return false;
}

/* Connection, caller's process and number of words, then the strings behind the first. */
static napi_value answer(napi_env env, const struct call *call) {
  size_t skipped = strlen(call->strings) + 1, length = call->head.bytes - skipped;
  char *text = malloc(length + 64);
  napi_value result = NULL;
  if (text == NULL) return NULL;
  int written = snprintf(text, 64, "%d %d %u", call->connection, (int)call->pid, call->head.words);
  size_t at = (size_t)written + 1;
  memcpy(text + at, call->strings + skipped, length);
  /* Without the last NUL. */
  if (napi_create_string_utf8(env, text, at + length - 1, &result) != NAPI_OK) result = NULL;
  free(text);
  return result;
}

static bool text_of(napi_env env, napi_value value, char text[PATH_BYTES]) {
  size_t length;
  return napi_get_value_string_utf8(env, value, text, PATH_BYTES, &length) == NAPI_OK;
}

static napi_value take_call(napi_env env, napi_callback_info info) {
  napi_value values[4];
  size_t count = 4;
  struct wish wish;
  struct call call = {.connection = -1};
  if (napi_get_cb_info(env, info, &count, values, NULL, NULL) != NAPI_OK || count != 4) return NULL;
  if (!text_of(env, values[0], wish.directory) || !text_of(env, values[1], wish.daemon_socket) ||
      !text_of(env, values[2], wish.program) || napi_get_value_int32(env, values[3], &wish.idle_ms) != NAPI_OK)
    return NULL;
  if (!take(&wish, &call)) return NULL;
  napi_value result = answer(env, &call);
  free(call.strings);
  return result;
}

/* What the module exports is the function itself. */
napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  if (napi_create_function(env, "takeCall", sizeof "takeCall" - 1, take_call, NULL, &function) != NAPI_OK)
    return exports;
  return function;
}
