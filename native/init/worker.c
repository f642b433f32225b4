/* File workers: see worker.h. The table says which function serves which request and what it may carry. */
#include "init/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/connection.h"
#include "init/file.h"
#include "init/request.h"
#include "init/spawn.h"

enum {
  WORKER_SOCKET = 3,
  /* Workers that were killed and only have to end hold no client's place: on a busy machine that may take them long.
     There may be as many of them as clients have places. */
  WORKERS_MAX = 2 * GUEST_FILE_WORKERS_MAX,
  /* How long a request waits where even those are used up. Longer, and one that hangs in the kernel would keep
     everybody's output waiting. */
  DYING_MS_MAX = 20,
};

struct operation {
  uint8_t type;
  uint8_t allowed[10]; /* ends with 0 */
  void (*serve)(int socket);
};

/* With uid and gid an operation is done as that user: its permissions, its ownership. */
static const struct operation operations[] = {
    {FRAME_FILE_READ, {FIELD_PATH, FIELD_OFFSET, FIELD_LENGTH, FIELD_UID, FIELD_GID, 0}, file_read},
    {FRAME_FILE_WRITE, {FIELD_PATH, FIELD_MODE, FIELD_CREATE_PARENTS, FIELD_UID, FIELD_GID, 0}, file_write},
    {FRAME_FILE_STAT, {FIELD_PATH, FIELD_FOLLOW_LINKS, FIELD_UID, FIELD_GID, 0}, file_stat},
    {FRAME_FILE_LIST, {FIELD_PATH, FIELD_UID, FIELD_GID, 0}, file_list},
    {FRAME_FILE_MAKE_DIRECTORY, {FIELD_PATH, FIELD_MODE, FIELD_CREATE_PARENTS, FIELD_UID, FIELD_GID, 0},
     file_make_directory},
    {FRAME_FILE_MOVE, {FIELD_PATH, FIELD_TARGET, FIELD_UID, FIELD_GID, 0}, file_move},
    {FRAME_FILE_REMOVE, {FIELD_PATH, FIELD_RECURSIVE, FIELD_UID, FIELD_GID, 0}, file_remove},
    {FRAME_FILE_WATCH, {FIELD_PATH, FIELD_RECURSIVE, FIELD_UID, FIELD_GID, 0}, file_watch},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

struct worker {
  pid_t pid; /* 0: free slot */
  bool is_dying; /* killed, because its client hung up */
  struct connection *connection;
};

static struct worker workers[WORKERS_MAX];

static const struct operation *operation_of(uint8_t type) {
  for (unsigned i = 0; i < OPERATIONS; i++) {
    if (operations[i].type == type) return &operations[i];
  }
  return NULL;
}

bool worker_serves(uint8_t type) {
  return operation_of(type) != NULL;
}

static _Noreturn void run_worker(const struct operation *operation, int socket) {
  if (dup2(socket, WORKER_SOCKET) < 0) _exit(1);
  /* A worker that kept another command's pipe would hide its end. */
  close_from(WORKER_SOCKET + 1);
  /* PID 1 uses this socket no more, so the shared flag is ours. */
  if (set_blocking(WORKER_SOCKET, true) != 0) _exit(1);
  raise_oom_score();
  uint64_t uid = geteuid(), gid = getegid();
  if (!request_integer(FIELD_UID, 0, UINT32_MAX - 1, &uid) || !request_integer(FIELD_GID, 0, UINT32_MAX - 1, &gid)) {
    answer_bad_request(WORKER_SOCKET, "the user is out of range");
  } else if ((request.has[FIELD_UID] || request.has[FIELD_GID]) && become((uid_t)uid, (gid_t)gid) != 0) {
    answer_error(WORKER_SOCKET, errno, "the user");
  } else {
    operation->serve(WORKER_SOCKET);
  }
  /* A client that still sends must be able to end, else it would see a reset before the answer. */
  answer_finish(WORKER_SOCKET);
  _exit(0);
}

static unsigned clients_served(void) {
  unsigned served = 0;
  for (unsigned i = 0; i < WORKERS_MAX; i++) served += workers[i].pid != 0 && !workers[i].is_dying;
  return served;
}

static struct worker *free_slot(void) {
  if (clients_served() == GUEST_FILE_WORKERS_MAX) return NULL;
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid == 0) return &workers[i];
  }
  return NULL;
}

static bool has_hung_up(const struct connection *connection) {
  struct pollfd socket = {.fd = connection->watch.fd};
  return poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

/* What the event loop would find in its next turns: workers that ended, clients that hung up. */
static void look_at_workers(void) {
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid == 0) continue;
    if (waitpid(workers[i].pid, NULL, WNOHANG) == workers[i].pid) (void)worker_child_ended(workers[i].pid);
    else if (!workers[i].is_dying && has_hung_up(workers[i].connection)) worker_lost_client(workers[i].connection);
  }
}

/*
 * A client that asks one thing after another may come back before the loop has heard of its last hang-up, and long
 * before its last worker gets a turn on a busy processor. It must not hear that there are too many.
 */
static struct worker *slot_for_request(void) {
  struct worker *slot = free_slot();
  for (unsigned waited_ms = 0; slot == NULL && waited_ms <= DYING_MS_MAX; waited_ms++) {
    if (waited_ms > 0) (void)poll(NULL, 0, 1);
    look_at_workers();
    slot = free_slot();
    if (clients_served() == GUEST_FILE_WORKERS_MAX) break;
  }
  return slot;
}

void worker_request(struct connection *connection, uint8_t type, uint8_t *payload, size_t length) {
  const struct operation *operation = operation_of(type);
  const char *wrong = request_parse(operation->allowed, payload, length);
  if (wrong == NULL && request_path(FIELD_PATH) == NULL) wrong = "the path is not absolute or is too long";
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  struct worker *worker = slot_for_request();
  pid_t pid = worker == NULL ? -1 : fork();
  if (pid < 0) {
    connection_refuse(connection, "limit", worker == NULL ? EAGAIN : errno, "too many file operations");
    return;
  }
  if (pid == 0) run_worker(operation, connection->watch.fd);
  worker->pid = pid;
  worker->is_dying = false;
  worker->connection = connection;
  connection->kind = CONNECTION_WORKER;
  watch_for_hangup(&connection->watch);
}

void worker_lost_client(struct connection *connection) {
  watch_remove(&connection->watch);
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid == 0 || workers[i].connection != connection) continue;
    (void)kill(workers[i].pid, SIGKILL); /* Not reaped, so the pid is still the worker's. */
    workers[i].is_dying = true;
  }
}

bool worker_child_ended(pid_t pid) {
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid != pid) continue;
    workers[i].pid = 0;
    connection_close(workers[i].connection);
    return true;
  }
  return false;
}
