/* File workers: see worker.h. The table says which function serves which request and what it may carry. */
#include "init/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/pid_one.h"
#include "init/connection.h"
#include "init/file.h"
#include "init/machine.h"
#include "init/request.h"
#include "init/spawn.h"
#include "init/temporary.h"
#include "init/watcher.h"

enum {
  WORKER_SOCKET = 3,
  WORKER_CHANNEL = 4,
  /* Workers that were killed and only have to end hold no client's place: on a busy machine that may take them long.
     There may be as many of them as clients have places. */
  WORKERS_MAX = 2 * GUEST_FILE_WORKERS_MAX,
  /* How long a request waits where even those are used up. Longer, and one that hangs in the kernel would keep
     everybody's output waiting. */
  DYING_MS_MAX = 20,
};

struct operation {
  uint8_t type;
  /* Its worker has a temporary file to remove when its client hangs up. */
  bool ends_itself;
  uint8_t allowed[16]; /* ends with 0 */
  void (*serve)(int socket); /* NULL: a watch */
};

/* With uid and gid an operation is done as that user: its permissions, its ownership. */
#define AS_USER FIELD_PATH, FIELD_UID, FIELD_GID
static const struct operation operations[] = {
    {FRAME_FILE_READ, false, {AS_USER, FIELD_OFFSET, FIELD_LENGTH, FIELD_DESCRIBE, 0}, file_read},
    {FRAME_FILE_WRITE, true,
     {AS_USER, FIELD_MODE, FIELD_CREATE_PARENTS, FIELD_ATOMIC, FIELD_APPEND, FIELD_OFFSET, FIELD_SIZE, FIELD_EXCLUSIVE, FIELD_OWNER,
      FIELD_OWNER_GROUP, FIELD_INODE, FIELD_CHANGED_US, 0},
     file_write},
    {FRAME_FILE_STAT, false, {AS_USER, FIELD_FOLLOW_LINKS, 0}, file_stat},
    {FRAME_FILE_LIST, false, {AS_USER, FIELD_DEPTH, FIELD_ENTRIES_MAX, FIELD_PATTERN, FIELD_AFTER, 0}, file_list},
    {FRAME_FILE_MAKE_DIRECTORY, false, {AS_USER, FIELD_MODE, FIELD_CREATE_PARENTS, FIELD_OWNER, FIELD_OWNER_GROUP, 0},
     file_make_directory},
    {FRAME_FILE_MOVE, false, {AS_USER, FIELD_TARGET, FIELD_CREATE_PARENTS, FIELD_EXCLUSIVE, 0}, file_move},
    {FRAME_FILE_COPY, true, {AS_USER, FIELD_TARGET, FIELD_CREATE_PARENTS, FIELD_EXCLUSIVE, FIELD_RECURSIVE, 0}, file_copy},
    {FRAME_FILE_ATTRIBUTES, false,
     {AS_USER, FIELD_MODE, FIELD_OWNER, FIELD_OWNER_GROUP, FIELD_RECURSIVE, FIELD_FOLLOW_LINKS, FIELD_SIZE, FIELD_MTIME_MS, 0},
     file_attributes},
    {FRAME_FILE_LINK, false, {AS_USER, FIELD_TARGET, FIELD_FILE_TYPE, FIELD_CREATE_PARENTS, 0}, file_link},
    {FRAME_FILE_REMOVE, false, {AS_USER, FIELD_RECURSIVE, 0}, file_remove},
    {FRAME_FILE_SEARCH, false,
     {AS_USER, FIELD_TEXT, FIELD_REGEX, FIELD_IGNORE_CASE, FIELD_PATTERN, FIELD_ENTRIES_MAX, FIELD_BYTES_MAX, FIELD_LENGTH, 0},
     file_search},
    {FRAME_FILE_ARCHIVE, false, {AS_USER, 0}, file_archive},
    {FRAME_FILE_EXTRACT, true,
     {AS_USER, FIELD_ENTRIES_MAX, FIELD_BYTES_MAX, FIELD_KEEP_OWNER, FIELD_OWNER, FIELD_OWNER_GROUP, FIELD_CREATE_PARENTS, 0},
     file_extract},
    {FRAME_FILE_SYNC, false, {AS_USER, 0}, file_sync},
    {FRAME_FILE_UPPER, false, {FIELD_PATH, 0}, file_upper},
    {FRAME_FILE_WATCH, false, {AS_USER, FIELD_RECURSIVE, 0}, NULL},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

struct worker {
  pid_t pid; /* 0: free slot */
  bool ends_itself;
  bool is_dying; /* told to end, because its client hung up */
  bool holds_still; /* commands, which go on when it has ended */
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

/* `channel` is the watcher's where a watch is asked for, else -1. */
static _Noreturn void run_worker(const struct operation *operation, int socket, int channel) {
  if (dup2(socket, WORKER_SOCKET) < 0 || (channel >= 0 && dup2(channel, WORKER_CHANNEL) < 0)) _exit(1);
  /* A worker that kept another command's pipe would hide its end. */
  if (operation->type == FRAME_FILE_UPPER) close_from(MACHINE_END);
  else close_from(channel >= 0 ? WORKER_CHANNEL + 1 : WORKER_SOCKET + 1);
  if (operation->ends_itself) temporary_guard();
  /* A write behind RLIMIT_FSIZE is to fail: a worker that died of it would leave its temporary file and no word. */
  (void)signal(SIGXFSZ, SIG_IGN);
  /* PID 1 uses this socket no more, so the shared flag is ours. */
  if (set_blocking(WORKER_SOCKET, true) != 0) _exit(1);
  pid_one_child_goes_first();
  uint64_t uid = geteuid(), gid = getegid();
  if (!request_integer(FIELD_UID, 0, UINT32_MAX - 1, &uid) || !request_integer(FIELD_GID, 0, UINT32_MAX - 1, &gid)) {
    answer_bad_request(WORKER_SOCKET, "the user is out of range");
  } else if ((request.has[FIELD_UID] || request.has[FIELD_GID]) && become((uid_t)uid, (gid_t)gid) != 0) {
    answer_error(WORKER_SOCKET, errno, "the user");
  } else if (operation->serve == NULL) {
    file_watch(WORKER_SOCKET, WORKER_CHANNEL);
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
  struct pollfd socket = {.fd = connection->watch.fd, .events = connections_close_whole() ? POLLRDHUP : 0};
  return poll(&socket, 1, 0) == 1;
}

/* What the event loop would find in its next turns: workers that ended, clients that hung up. */
static void look_at_workers(void) {
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid == 0) continue;
    if (waitpid(workers[i].pid, NULL, WNOHANG) == workers[i].pid) (void)worker_child_ended(workers[i].pid);
    else if (workers[i].is_dying) (void)kill(workers[i].pid, SIGKILL); /* The place counts more than a temporary file. */
    else if (has_hung_up(workers[i].connection)) worker_lost_client(workers[i].connection);
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
  if (wrong == NULL && type == FRAME_FILE_UPPER && !machine_is()) wrong = "only a microVM's guest tells its upper";
  if (wrong == NULL && request_path(FIELD_PATH) == NULL) wrong = "the path is not absolute or is too long";
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  struct worker *worker = slot_for_request();
  int channel = operation->serve == NULL && worker != NULL ? watcher_channel() : -1;
  bool has_channel = operation->serve != NULL || channel >= 0;
  pid_t pid = worker == NULL || !has_channel ? -1 : fork();
  if (pid < 0) {
    connection_refuse(connection, "limit", worker == NULL ? EAGAIN : errno, "too many file operations");
    return;
  }
  if (pid == 0) run_worker(operation, connection->watch.fd, channel);
  worker->pid = pid;
  worker->ends_itself = operation->ends_itself;
  worker->holds_still = type == FRAME_FILE_UPPER;
  worker->is_dying = false;
  worker->connection = connection;
  connection->kind = CONNECTION_WORKER;
  connection_watch_hangup(connection);
}

void worker_lost_client(struct connection *connection) {
  watch_remove(&connection->watch);
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid == 0 || workers[i].connection != connection) continue;
    /* Not reaped, so the pid is still the worker's. */
    (void)kill(workers[i].pid, workers[i].ends_itself ? SIGTERM : SIGKILL);
    workers[i].is_dying = true;
  }
}

bool worker_child_ended(pid_t pid) {
  for (unsigned i = 0; i < WORKERS_MAX; i++) {
    if (workers[i].pid != pid) continue;
    workers[i].pid = 0;
    if (workers[i].holds_still) machine_thaw();
    connection_close(workers[i].connection);
    return true;
  }
  return false;
}
