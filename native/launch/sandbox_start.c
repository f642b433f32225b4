/*
 * The launcher's side of a start: forks the starter, writes its id maps, hears who the first process is, and asks PID 1
 * whether it is there. See starter.c for the child.
 */
#include "launch/sandbox_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "launch/connection.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/ids.h"
#include "launch/leftover.h"
#include "launch/log.h"
#include "launch/message.h"
#include "launch/ranges.h"
#include "launch/relays.h"
#include "launch/sandbox_end.h"
#include "launch/socket.h"
#include "launch/spares.h"
#include "launch/spread.h"
#include "launch/starter.h"
#include "launch/supply.h"

enum {
  /* A start takes some milliseconds; a hundred at once on two cores still some hundred. */
  START_MS_MAX = 30000,
  /* One connection per command and file operation: what PID 1 itself accepts. */
  GUEST_BACKLOG = GUEST_CONNECTIONS_MAX,
};

/* Of a spare's group. Version 1 counts the memory of sockets only where a group had a limit when they were made, and the
   listeners in the sandbox's network are made before the limit is known. */
#define UNLIMITED_BYTES (UINT64_C(1) << 60)

#define SANDBOX_OF(source_pointer, member) \
  ((struct sandbox *)(void *)((char *)(source_pointer) - offsetof(struct sandbox, member)))

static void fail(struct launcher *launcher, struct sandbox *sandbox, const char *what) {
  if (sandbox->fault.code == NULL) fault_set(&sandbox->fault, "launch_failed", "%s", what);
  sandbox_end(launcher, sandbox);
}

/* The user of a box has the number inside that the host knows it by, and is the daemon's id. Its root is another, where there are more. */
static void map_of(const struct launcher *launcher, const struct sandbox *sandbox, unsigned own, char *map, size_t size) {
  if (!sandbox->is_box) snprintf(map, size, "0 %u %u\n", sandbox->root_id, launcher->is_single ? 1 : SANDBOX_IDS);
  else if (launcher->is_single) snprintf(map, size, "%u 0 1\n", own);
  else if (own >= SANDBOX_IDS) snprintf(map, size, "0 1 %u\n%u 0 1\n", SANDBOX_IDS, own);
  else if (own == SANDBOX_IDS - 1) snprintf(map, size, "0 1 %u\n%u 0 1\n", own, own);
  else snprintf(map, size, "0 1 %u\n%u 0 1\n%u %u %u\n", own, own, own + 1, own + 1, SANDBOX_IDS - 1 - own);
}

static void write_maps(struct launcher *launcher, struct sandbox *sandbox) {
  char path[64];
  char map[96];
  bool is_fine = true;
  if (launcher->is_single) {
    /* Without privilege over the parent's groups the kernel wants setgroups off first. */
    snprintf(path, sizeof path, "/proc/%d/setgroups", sandbox->starter);
    (void)text_file_write(AT_FDCWD, path, "deny");
  }
  snprintf(path, sizeof path, "/proc/%d/gid_map", sandbox->starter);
  map_of(launcher, sandbox, sandbox->group_id, map, sizeof map);
  is_fine &= text_file_write(AT_FDCWD, path, map) == 0;
  snprintf(path, sizeof path, "/proc/%d/uid_map", sandbox->starter);
  map_of(launcher, sandbox, sandbox->user, map, sizeof map);
  is_fine &= text_file_write(AT_FDCWD, path, map) == 0;
  if (!is_fine) fail(launcher, sandbox, "can't write the sandbox's id maps");
  else if (write_whole(sandbox->control.fd, "k", 1) != 0) fail(launcher, sandbox, "the starter is gone");
}

/* Gives the starter /dev/fuse, opened as a process of its user namespace. */
static int give_fuse(struct launcher *launcher, struct sandbox *sandbox, struct fault *fault) {
  cleanup_fd fuse = helper_open_fuse(launcher->helper_fd, sandbox->starter, fault);
  if (fuse < 0) return -1;
  if (message_send(sandbox->control.fd, "k", 1, &fuse, 1) == 0) return 0;
  return fault_set(fault, "launch_failed", "the starter is gone");
}

void sandbox_start_failed(struct launcher *launcher, struct sandbox *sandbox, int status) {
  errno = 0;
  if (sandbox->fault.code == NULL) {
    fault_set(&sandbox->fault, "launch_failed", "sandbox \"%s\" ended while it started (status 0x%x): %s",
              sandbox->name, (unsigned)status, sandbox->error_text);
  }
  if (sandbox->state == SANDBOX_SPARE) spares_failed(launcher, &sandbox->fault);
  sandbox->state = SANDBOX_ENDING;
  sandbox->deadline_ms = 0;
  relays_end(launcher, sandbox);
  if (sandbox->pid != 0) kill(sandbox->pid, SIGKILL);
}

static void answer_started(struct launcher *launcher, const struct sandbox *sandbox) {
  uint8_t buffer[512];
  char socket[64];
  snprintf(socket, sizeof socket, "g/%llu.sock", (unsigned long long)sandbox->instance);
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  for (struct connection *at = launcher->connections; at != NULL;) {
    struct connection *next = at->next;
    if (at->start_wait == sandbox->instance) {
      frame_begin(&writer, FRAME_OK);
      frame_integer(&writer, FIELD_PID, (uint64_t)sandbox->pid);
      frame_text(&writer, FIELD_SOCKET, socket);
      if (sandbox->network.warning[0] != '\0') frame_text(&writer, FIELD_WARNING, sandbox->network.warning);
      connection_send(at, &writer);
      connection_close(launcher, at);
    }
    at = next;
  }
}

/* PID 1 answered, or closed without. Its words do not matter: that it runs our program by now does. */
static void guest_ready(struct launcher *launcher, struct source *source) {
  struct sandbox *sandbox = SANDBOX_OF(source, guest);
  uint8_t answer[FRAME_HEADER_BYTES];
  ssize_t got = recv(source->fd, answer, sizeof answer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  source_close(source);
  sandbox_start_hear(launcher, sandbox); /* All that was said before it ran. */
  /* Closed without an answer: why that is so its process says or its end tells, else the deadline holds. */
  if (sandbox->state != SANDBOX_STARTING || got <= 0) return;
  sandbox->state = SANDBOX_RUNNING;
  sandbox->deadline_ms = 0;
  sandbox_close_start(sandbox);
  answer_started(launcher, sandbox);
  sandbox_announce(launcher, sandbox, "started");
}

static void greet_guest(struct launcher *launcher, struct sandbox *sandbox) {
  char name[48];
  uint8_t buffer[FRAME_HEADER_BYTES];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  snprintf(name, sizeof name, "%llu.sock", (unsigned long long)sandbox->instance);
  frame_begin(&writer, FRAME_INFO);
  sandbox->guest = (struct source){.fd = socket_connect_at(launcher->sockets_fd, name), .ready = guest_ready};
  if (sandbox->guest.fd >= 0 && write_whole(sandbox->guest.fd, buffer, frame_finish(&writer)) == 0 &&
      source_add(launcher, &sandbox->guest) == 0) {
    return;
  }
  bool is_closed = errno == ECONNREFUSED || errno == EPIPE || errno == ECONNRESET;
  close_fd(&sandbox->guest.fd);
  if (!is_closed) fail(launcher, sandbox, "can't connect to PID 1"); /* Else as in guest_ready. */
}

/* Once it is known both who the first process is and which sandbox it begins. */
static void meet_guest(struct launcher *launcher, struct sandbox *sandbox) {
  if (leftover_record(launcher->sockets_fd, sandbox->instance, sandbox->pid) != 0) {
    fail(launcher, sandbox, "can't record the sandbox's process");
    return;
  }
  greet_guest(launcher, sandbox);
}

/* Text of squash-init that can't begin: the first words name the cause. */
static void keep_text(struct sandbox *sandbox, const void *text, size_t length) {
  size_t room = sizeof sandbox->error_text - 1 - sandbox->error_used;
  if (length > room) length = room;
  memcpy(sandbox->error_text + sandbox->error_used, text, length);
  sandbox->error_used += length;
}

/* Hears one message, where one has come. */
static bool hear(struct launcher *launcher, struct sandbox *sandbox) {
  struct starter_message message;
  int descriptors[MESSAGE_DESCRIPTORS_MAX];
  ssize_t got = message_receive_some(sandbox->control.fd, &message, sizeof message, descriptors, MESSAGE_DESCRIPTORS_MAX);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    source_close(&sandbox->control); /* squash-init runs, or its process is gone: its end tells which. */
    return false;
  }
  if (got != (ssize_t)sizeof message) {
    keep_text(sandbox, &message, (size_t)got);
    return true;
  }
  switch (message.word) {
    case STARTER_NEEDS_MAPS:
      write_maps(launcher, sandbox);
      break;
    case STARTER_NEEDS_FUSE:
      if (give_fuse(launcher, sandbox, &sandbox->fault) != 0) sandbox_end(launcher, sandbox);
      break;
    case STARTER_OVERLAY_PID:
      sandbox->overlay_pid = message.pid;
      break;
    case STARTER_GATE_PID:
      sandbox->gate_pid = message.pid;
      break;
    case STARTER_UPPER_MOUNT:
      sandbox->upper_mount_fd = descriptors[0];
      break;
    case STARTER_NETWORK:
      snprintf(sandbox->network.warning, sizeof sandbox->network.warning, "%.*s",
               (int)sizeof sandbox->network.warning - 1, message.fault.text);
      relays_keep(launcher, sandbox, descriptors, LISTENERS_MAX);
      break;
    case STARTER_FAILED:
      sandbox->fault = message.fault;
      if (sandbox->state == SANDBOX_SPARE) spares_failed(launcher, &sandbox->fault);
      sandbox_end(launcher, sandbox);
      break;
    case STARTER_FIRST_PID:
      sandbox->pid = message.pid;
      sandbox->was_known = true;
      if (sandbox->state == SANDBOX_STARTING) meet_guest(launcher, sandbox);
      else sandbox->deadline_ms = 0; /* A spare waits as long as nobody needs it. */
      break;
  }
  return true;
}

void sandbox_start_hear(struct launcher *launcher, struct sandbox *sandbox) {
  while (sandbox->state <= SANDBOX_STARTING && sandbox->control.fd >= 0 && hear(launcher, sandbox)) continue;
}

static void control_ready(struct launcher *launcher, struct source *source) {
  struct sandbox *sandbox = SANDBOX_OF(source, control);
  /* Nobody reads it any more, and its end would wake the loop without a pause. */
  if (sandbox->state > SANDBOX_STARTING) source_close(source);
  else sandbox_start_hear(launcher, sandbox);
}

static struct sandbox *sandbox_new(struct launcher *launcher) {
  struct sandbox *sandbox = calloc(1, sizeof *sandbox);
  if (sandbox == NULL) return NULL;
  sandbox->instance = SPARE_INSTANCE;
  sandbox->root_id = ranges_take(launcher);
  sandbox->control = (struct source){.fd = -1, .ready = control_ready};
  sandbox->guest = (struct source){.fd = -1};
  sandbox->supply_fd = -1;
  sandbox->upper_mount_fd = -1;
  sandbox->mounts_fd = -1;
  relays_prepare(sandbox);
  sandbox->next = launcher->sandboxes;
  launcher->sandboxes = sandbox;
  return sandbox;
}

static void sandbox_name(struct sandbox *sandbox, const struct request *request) {
  snprintf(sandbox->name, sizeof sandbox->name, "%s", request->name);
  snprintf(sandbox->upper, sizeof sandbox->upper, "%s", request->upper);
  sandbox->state = SANDBOX_STARTING;
  sandbox->instance = request->instance;
  sandbox->upper_kind = request->upper_kind;
  sandbox->upper_bytes_max = request->bytes_max;
  sandbox->upper_inodes_max = request->inodes_max;
  sandbox->is_box = request->is_box;
  sandbox->is_vmm = request->is_vmm;
  sandbox->traces_paths = request->traces_paths;
  sandbox->allows_nesting = request->allows_nesting;
  sandbox->user = request->user;
  sandbox->group_id = request->group;
  sandbox->deadline_ms = now_ms() + START_MS_MAX;
}

/* Forks what makes the sandbox, with its ends of the channels; ours of the first becomes a source of the loop. */
static int fork_starter(struct launcher *launcher, struct sandbox *sandbox, uint64_t pids_max) {
  static uint64_t number;
  int control[2];
  int supply[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return -1;
  sandbox->control.fd = control[0];
  cleanup_fd control_end = control[1];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supply) != 0) return -1;
  sandbox->supply_fd = supply[0];
  cleanup_fd supply_end = supply[1];
  if (set_blocking(sandbox->control.fd, false) != 0) return -1;
  struct starter_plan plan = {.group = sandbox->group,
                              .number = number++,
                              .root_id = sandbox->root_id,
                              .is_box = sandbox->is_box,
                              .traces_paths = sandbox->traces_paths,
                              .allows_nesting = sandbox->allows_nesting,
                              .user = sandbox->user,
                              .group_id = sandbox->group_id,
                              .pids_max = pids_max,
                              .control_fd = control_end,
                              .supply_fd = supply_end,
                              .devices_fd = -1,
                              .init_fd = launcher->init_fd,
                              .vmm_fd = launcher->vmm_fd,
                              .seccomp_fd = launcher->seccomp_fd};
  sandbox->starter = fork();
  if (sandbox->starter == 0) starter_main(launcher, &plan);
  if (sandbox->starter < 0) {
    sandbox->starter = 0;
    return -1;
  }
  return source_add(launcher, &sandbox->control);
}

/* Forks what gathers the rest. Afterwards the only end that can send is its own: with it goes the hope for more. */
static int fork_supplier(struct launcher *launcher, struct sandbox *sandbox, const struct request *request) {
  char name[48];
  char made_at[SPREAD_NAME_BYTES];
  snprintf(name, sizeof name, "%llu.sock", (unsigned long long)sandbox->instance);
  spread_name(sandbox->instance, made_at);
  cleanup_fd listener = socket_listen_at(launcher->sockets_fd, made_at, GUEST_BACKLOG, 0);
  if (listener < 0 || renameat(launcher->sockets_fd, made_at, launcher->sockets_fd, name) != 0) return -1;
  sandbox->supplier = fork();
  if (sandbox->supplier == 0) {
    supply_main(launcher, &(struct supply_plan){request, sandbox->root_id, listener, sandbox->supply_fd});
  }
  close_fd(&sandbox->supply_fd);
  if (sandbox->supplier > 0) return 0;
  sandbox->supplier = 0;
  return -1;
}

static void make_spare(struct launcher *launcher) {
  static uint64_t count;
  struct sandbox *sandbox = sandbox_new(launcher);
  const struct cgroup_limits unlimited = {.memory_bytes = UNLIMITED_BYTES};
  if (sandbox == NULL) return;
  snprintf(sandbox->group, sizeof sandbox->group, "spare%llu", (unsigned long long)count++);
  sandbox->deadline_ms = now_ms() + START_MS_MAX;
  if (cgroup_create(&launcher->cgroups, sandbox->group, &unlimited, &sandbox->fault) == 0) {
    if (fork_starter(launcher, sandbox, 0) == 0) return;
    fault_set(&sandbox->fault, "launch_failed", "can't fork a sandbox");
  }
  spares_failed(launcher, &sandbox->fault);
  sandbox_end(launcher, sandbox);
}

int64_t sandbox_spares_run(struct launcher *launcher) {
  int64_t next_ms;
  if (spares_are_due(launcher, &next_ms)) make_spare(launcher);
  return next_ms;
}

/* A spare that waits, or one begun now. What a spare did without knowing the request, this does the same way. */
static struct sandbox *begin(struct launcher *launcher, const struct request *request) {
  const struct cgroup_limits limits = {request->memory_bytes_max, request->cpu_milli, request->pids_max};
  /* A spare has its ids already, and they are not a box's. */
  bool fits_range = !request->is_box && ranges_fit(launcher, request->upper_kind);
  struct sandbox *sandbox = fits_range ? spares_take(launcher) : NULL;
  /* Version 1 takes no limit of memory below what is used. */
  if (sandbox != NULL && cgroup_create(&launcher->cgroups, sandbox->group, &limits, &sandbox->fault) != 0) {
    log_line("a spare sandbox can't be used: %s", sandbox->fault.text);
    sandbox_end(launcher, sandbox);
    sandbox = NULL;
  }
  bool is_new = sandbox == NULL;
  if (is_new) sandbox = sandbox_new(launcher);
  if (sandbox == NULL) return NULL;
  if (!fits_range) sandbox->root_id = sandbox_root_id(launcher);
  sandbox_name(sandbox, request);
  if (is_new) snprintf(sandbox->group, sizeof sandbox->group, "s%llu", (unsigned long long)request->instance);
  if ((!is_new || cgroup_create(&launcher->cgroups, sandbox->group, &limits, &sandbox->fault) == 0) &&
      ((is_new && fork_starter(launcher, sandbox, request->pids_max) != 0) || fork_supplier(launcher, sandbox, request) != 0)) {
    fault_set(&sandbox->fault, "launch_failed", "can't fork a sandbox");
  }
  return sandbox;
}

int sandbox_start(struct launcher *launcher, const struct request *request, struct fault *fault) {
  errno = 0;
  if (launcher->is_ending) return fault_set(fault, "shutting_down", "the launcher is ending");
  unsigned count = 0;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) count += at->state != SANDBOX_SPARE;
  if (count >= SANDBOXES_MAX) return fault_set(fault, "sandbox_limit", "the launcher holds %u sandboxes", count);
  if (sandbox_by_name(launcher, request->name) != NULL || sandbox_by_instance(launcher, request->instance) != NULL) {
    return fault_set(fault, "sandbox_exists", "sandbox \"%s\" is running already", request->name);
  }
  struct sandbox *sandbox = begin(launcher, request);
  if (sandbox == NULL) return fault_set(fault, "launch_failed", "no memory for a sandbox");
  /* The client hears of a fault when nothing of the attempt is left. */
  if (sandbox->fault.code != NULL) sandbox_end(launcher, sandbox);
  else if (sandbox->was_known) meet_guest(launcher, sandbox);
  return 0;
}
