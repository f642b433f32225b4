/* Workers: see worker.h. */
#include "launch/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/apply.h"
#include "launch/box_file.h"
#include "launch/dial.h"
#include "launch/difference.h"
#include "launch/egress.h"
#include "launch/group.h"
#include "launch/image.h"
#include "launch/log.h"
#include "launch/mount_verbs.h"
#include "launch/probe.h"
#include "launch/remains.h"
#include "launch/sandbox.h"
#include "launch/stillness.h"
#include "common/syscalls.h"
#include "launch/tar_send.h"
#include "tree/tree.h"
#include "launch/upper.h"
#include "launch/volume_copy.h"

/* A client that does not read an answer of some bytes for this long is gone. */
enum { ANSWER_S_MAX = 10, ANSWER_BYTES_MAX = 8192 };

void child_forget(const struct launcher *launcher, int kept) {
  close(launcher->epoll_fd);
  close(launcher->listener.fd);
  close(launcher->child_signals.fd);
  for (struct connection *at = launcher->connections; at != NULL; at = at->next) {
    if (at->source.fd != kept) close(at->source.fd);
  }
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    const int channels[] = {at->control.fd, at->supply_fd, at->guest.fd};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
      if (channels[i] >= 0) close(channels[i]);
    }
    for (unsigned i = 0; i < at->network.listener_count; i++) close(at->network.listeners[i].fd);
    for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
      if (at->network.relays[i].channel.fd >= 0) close(at->network.relays[i].channel.fd);
    }
  }
  for (const struct dial *at = launcher->dials; at != NULL; at = at->next) close(at->source.fd);
  remains_let_go();
  egress_forget(launcher);
}

static void send_frame(int client, struct frame_writer *writer) {
  size_t length = frame_finish(writer);
  if (length > 0) (void)write_whole(client, writer->buffer, length); /* A client that is gone needs no answer. */
}

static void list(const struct launcher *launcher, int client) {
  uint8_t buffer[256];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->state != SANDBOX_RUNNING) continue;
    frame_begin(&writer, FRAME_ENTRY);
    frame_text(&writer, FIELD_NAME, at->name);
    frame_integer(&writer, FIELD_INSTANCE, at->instance);
    frame_integer(&writer, FIELD_PID, (uint64_t)at->pid);
    if (at->is_vmm) frame_integer(&writer, FIELD_VMM, 1);
    send_frame(client, &writer);
  }
}

static int usage(const struct launcher *launcher, const struct request *request, struct frame_writer *writer,
                 struct fault *fault) {
  struct tree_usage measured;
  if (upper_usage(launcher, request, &measured, fault) != 0) return -1;
  frame_integer(writer, FIELD_BYTES, measured.bytes);
  frame_integer(writer, FIELD_INODES, measured.inodes);
  return 0;
}

/* Fills in what the `ok` frame carries. */
static int run(const struct launcher *launcher, const struct request *request, struct frame_writer *writer,
               struct fault *fault) {
  switch (request->type) {
    case FRAME_UPPER_CREATE: return upper_create(launcher, request, fault);
    case FRAME_UPPER_USAGE: return usage(launcher, request, writer, fault);
    case FRAME_TREE_REMOVE: return tree_remove(launcher->data_fd, request->path, fault);
    case FRAME_IMAGE_PACK: return image_pack(launcher, request, writer, fault);
    case FRAME_IMAGE_MERGE: return image_merge(launcher, request, writer, fault);
    case FRAME_IMAGE_PACK_TAR: return image_pack_tar(launcher, request, writer, fault);
    case FRAME_TREE_TAR: return tar_send(launcher, request, writer, fault);
    case FRAME_TREE_APPLY: return apply_send(launcher, request, fault);
    case FRAME_TREE_FILE: return box_file_send(launcher, request, fault);
    case FRAME_TREE_DIFF: return difference_send(launcher, request, writer, fault);
    case FRAME_IMAGE_UNPACK: return image_unpack(launcher, request, writer, fault);
    case FRAME_MOUNT_ATTACH: return mount_attach(launcher, request, fault);
    case FRAME_MOUNT_DETACH: return mount_detach(launcher, request, fault);
    case FRAME_VOLUME_COPY: return volume_copy(launcher, request, fault);
    case FRAME_GROUP_JOIN: return group_join(launcher, request, writer, fault);
    default: errno = 0; return fault_set(fault, "invalid_request", "the launcher has no verb 0x%x", request->type);
  }
}

static _Noreturn void worker_main(const struct launcher *launcher, const struct connection *connection) {
  int client = connection->source.fd;
  uint8_t buffer[ANSWER_BYTES_MAX];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  struct fault fault = {0};
  struct request request = connection->request;
  struct timeval patience = {.tv_sec = ANSWER_S_MAX};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (connection->request.type == FRAME_TREE_REMOVE) remains_hold();
  child_forget(launcher, client);
  request.client = client;
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (set_blocking(client, true) != 0) _exit(1);
  if (connection->request.type == FRAME_SANDBOX_LIST) list(launcher, client);
  if (connection->request.type == FRAME_HOST_PROBE) probe_send(launcher, client);
  frame_begin(&writer, FRAME_OK);
  if (connection->request.type != FRAME_SANDBOX_LIST && connection->request.type != FRAME_HOST_PROBE &&
      run(launcher, &request, &writer, &fault) != 0) {
    log_line("verb 0x%x failed: %s", connection->request.type, fault.text);
    write_fault_frame(&writer, &fault);
  }
  send_frame(client, &writer);
  _exit(0);
}

/* Of the sandbox that a worker is to enter. Only the launcher reaps it, so the number is still its own here. */
static int member_of(struct launcher *launcher, const struct request *request) {
  bool enters = request->type == FRAME_MOUNT_ATTACH || request->type == FRAME_MOUNT_DETACH;
  const struct sandbox *sandbox = enters ? sandbox_by_name(launcher, request->name) : NULL;
  return sandbox == NULL || sandbox->state != SANDBOX_RUNNING || sandbox->pid <= 0 ? -1 : sys_pidfd_open(sandbox->pid);
}

/* As long as the files are large that a sandbox has. */
static bool is_long(uint8_t type) {
  return type == FRAME_IMAGE_PACK || type == FRAME_IMAGE_MERGE || type == FRAME_IMAGE_PACK_TAR ||
         type == FRAME_IMAGE_UNPACK || type == FRAME_TREE_DIFF || type == FRAME_TREE_APPLY || type == FRAME_TREE_TAR || type == FRAME_VOLUME_COPY;
}

static bool has_room(const struct launcher *launcher, uint8_t type) {
  unsigned long_count = 0;
  if (type == FRAME_SANDBOX_LIST) return true;
  for (const struct worker *at = launcher->workers; at != NULL; at = at->next) long_count += at->is_long;
  return launcher->worker_count < WORKERS_MAX && (!is_long(type) || long_count < LONG_WORKERS_MAX);
}

void worker_run(struct launcher *launcher, struct connection *connection) {
  bool is_counted = connection->request.type != FRAME_SANDBOX_LIST;
  connection->is_queued = !has_room(launcher, connection->request.type);
  if (connection->is_queued) return;
  if (connection->request.type == FRAME_IMAGE_PACK) {
    struct sandbox *packed = sandbox_by_name(launcher, connection->request.name);
    if (packed != NULL) stillness_yield(packed);
  }
  cleanup_fd member = member_of(launcher, &connection->request);
  connection->request.member = member;
  struct worker *worker = calloc(1, sizeof *worker);
  pid_t pid = worker == NULL ? -1 : fork();
  if (pid == 0) worker_main(launcher, connection);
  if (pid < 0) {
    struct fault fault;
    free(worker);
    fault_set(&fault, "launch_failed", "can't fork a worker");
    connection_fault(launcher, connection, &fault);
    return;
  }
  *worker = (struct worker){.next = launcher->workers, .pid = pid, .is_counted = is_counted, .is_long = is_long(connection->request.type)};
  if (connection->request.type == FRAME_IMAGE_PACK) {
    struct sandbox *sandbox = sandbox_by_name(launcher, connection->request.name);
    if (sandbox != NULL) {
      worker->packed_instance = sandbox->instance;
      sandbox->packer = pid;
    }
  }
  launcher->workers = worker;
  launcher->worker_count += is_counted;
  if (connection->request.type == FRAME_TREE_REMOVE) remains_let_go();
  connection_close(launcher, connection); /* The worker has it now. */
}

bool worker_adopt(struct launcher *launcher, pid_t pid) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (worker == NULL) return false;
  *worker = (struct worker){.next = launcher->workers, .pid = pid};
  launcher->workers = worker;
  return true;
}

bool worker_is_known(const struct launcher *launcher, pid_t pid) {
  for (const struct worker *at = launcher->workers; at != NULL; at = at->next) {
    if (at->pid == pid) return true;
  }
  return false;
}

static void run_queued(struct launcher *launcher) {
  /* The list begins with the newest: the one that waits longest is the last. */
  struct connection *oldest = NULL;
  for (struct connection *at = launcher->connections; at != NULL; at = at->next) {
    if (at->is_queued && has_room(launcher, at->request.type)) oldest = at;
  }
  if (oldest != NULL) worker_run(launcher, oldest);
}

void worker_child_ended(struct launcher *launcher, pid_t pid, int status) {
  for (struct worker **at = &launcher->workers; *at != NULL; at = &(*at)->next) {
    struct worker *worker = *at;
    if (worker->pid != pid) continue;
    *at = worker->next;
    launcher->worker_count -= worker->is_counted;
    if (!WIFEXITED(status)) log_line("worker %d ended with status 0x%x", pid, (unsigned)status);
    struct sandbox *sandbox =
        worker->packed_instance == 0 ? NULL : sandbox_by_instance(launcher, worker->packed_instance);
    if (sandbox != NULL && sandbox->packer == pid) {
      sandbox->packer = 0;
      /* A worker that died in the middle left it frozen. */
      if (!sandbox->is_frozen) (void)sandbox_thaw(launcher, sandbox, &(struct fault){0});
    }
    free(worker);
    run_queued(launcher);
    return;
  }
}
