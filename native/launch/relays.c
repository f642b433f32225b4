/* Keeping relays: see relays.h. */
#include "launch/relays.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/bubblewrap.h"
#include "launch/clock.h"
#include "launch/egress.h"
#include "launch/ids.h"
#include "launch/log.h"
#include "launch/message.h"
#include "launch/socket.h"
#include "launch/title.h"
#include "relay/relay.h"

enum {
  /* Between tries to reach an egress process that is away; it doubles. */
  CONTROL_WAIT_MS_MIN = 50,
  CONTROL_WAIT_MS_MAX = 1000,
  /* Before the next relay where one died; it doubles for those that die young, over and over. */
  AGAIN_MS_MIN = 20,
  AGAIN_MS_MAX = 2000,
  SHORT_LIFE_MS = 5000,
  /* Descriptors a relay has beside two per connection: listeners, pipes, control. */
  RELAY_OWN_FILES = 256,
};
_Static_assert((int)RELAY_LISTENERS_MAX == (int)LISTENERS_MAX, "both name the same four");

static unsigned connections_max(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 2 * RELAY_OWN_FILES) return RELAY_OWN_FILES;
  rlim_t most = (limit.rlim_max - RELAY_OWN_FILES) / 2;
  return most < RELAY_CONNECTIONS_MAX ? (unsigned)most : RELAY_CONNECTIONS_MAX;
}

static _Noreturn void relay_main(const struct launcher *launcher, const struct sandbox *sandbox, int channel) {
  const struct relay_seat *seat = &sandbox->relay;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  title_set("squash-relay %s %s", sandbox->name, launcher->data);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int network = ioctl(seat->listeners[0].fd, SIOCGSKNS);
  int descriptors[2 + LISTENERS_MAX] = {channel, network};
  for (unsigned i = 0; i < seat->listener_count; i++) descriptors[2 + i] = seat->listeners[i].fd;
  if (null < 0 || network < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
      place_descriptors(descriptors, 2 + (int)seat->listener_count) != 0) {
    _exit(2);
  }
  close_from(3 + 2 + (int)seat->listener_count);
  struct relay_plan plan = {.launcher_fd = 3,
                            .listeners = {-1, -1, -1, -1},
                            .connection_base = seat->generation << 32,
                            .connections_max = connections_max(),
                            .idle_ms = RELAY_IDLE_MS,
                            .hold_ms = RELAY_HOLD_MS};
  for (unsigned i = 0; i < seat->listener_count; i++) plan.listeners[i] = 5 + (int)i;
  struct relay_identity identity = {.keeps_id = launcher->is_single, .id = RELAY_ID, .network_fd = 4};
  if (relay_confine(&identity) != 0) _exit(3);
  _exit(relay_run(&plan));
}

/* Connects to the egress process in the relay's name. Where it is away the next try is set. */
static void give_control(struct launcher *launcher, struct sandbox *sandbox) {
  struct relay_seat *seat = &sandbox->relay;
  uint8_t buffer[128 + SANDBOX_NAME_BYTES_MAX];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  struct relay_message message = {.word = RELAY_CONTROL};
  frame_begin(&writer, FRAME_RELAY_HELLO);
  frame_integer(&writer, FIELD_INSTANCE, sandbox->instance);
  frame_text(&writer, FIELD_NAME, sandbox->name);
  size_t length = frame_finish(&writer);
  cleanup_fd fd = socket_connect_now(launcher->run_fd, "egress.sock");
  seat->control_at_ms = 0;
  if (fd >= 0 && send(fd, buffer, length, MSG_NOSIGNAL) == (ssize_t)length &&
      message_send(seat->channel.fd, &message, sizeof message, (const int[]){fd}, 1) == 0) {
    return;
  }
  seat->control_at_ms = now_ms() + seat->control_wait_ms;
  seat->control_wait_ms *= 2;
  if (seat->control_wait_ms > CONTROL_WAIT_MS_MAX) seat->control_wait_ms = CONTROL_WAIT_MS_MAX;
}

/* Returns 0 when handed over, 1 when the channel has no room now, -1 when the relay is gone. */
static int hand(struct relay_seat *seat, const struct dial *dial) {
  struct relay_message message = {.word = RELAY_UPSTREAM, .connection = dial->connection};
  if (message_send(seat->channel.fd, &message, sizeof message, &dial->source.fd, 1) == 0) return 0;
  /* ETOOMANYREFS: as many descriptors are under way between processes as this user may have open. */
  return errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS ? 1 : -1;
}

static void hand_waiting(struct launcher *launcher, struct sandbox *sandbox) {
  struct relay_seat *seat = &sandbox->relay;
  while (seat->handover_first != NULL) {
    struct dial *dial = seat->handover_first;
    int handed = hand(seat, dial);
    if (handed > 0) return;
    dial_end(launcher, dial, handed == 0 ? 0 : EPIPE);
  }
  (void)source_wait(launcher, &seat->channel, EPOLLIN);
}

void relays_hand(struct launcher *launcher, struct dial *dial) {
  struct relay_seat *seat = &dial->sandbox->relay;
  int handed = seat->channel.fd < 0 ? -1 : seat->handover_first != NULL ? 1 : hand(seat, dial);
  if (handed <= 0) {
    dial_end(launcher, dial, handed == 0 ? 0 : EPIPE);
    return;
  }
  dial->is_connected = true;
  if (seat->handover_last != NULL) seat->handover_last->next_handover = dial;
  else seat->handover_first = dial;
  seat->handover_last = dial;
  (void)source_wait(launcher, &seat->channel, EPOLLIN | EPOLLOUT);
}

void relays_drop(struct dial *dial) {
  struct relay_seat *seat = &dial->sandbox->relay;
  struct dial *before = NULL;
  for (struct dial *at = seat->handover_first; at != dial; at = at->next_handover) before = at;
  if (before != NULL) before->next_handover = dial->next_handover;
  else seat->handover_first = dial->next_handover;
  if (seat->handover_last == dial) seat->handover_last = before;
}

bool relays_know(const struct sandbox *sandbox, uint64_t connection) {
  return sandbox->relay.channel.fd >= 0 && connection >> 32 == sandbox->relay.generation;
}

static void channel_ready(struct launcher *launcher, struct source *source) {
  struct sandbox *sandbox = source->owner;
  struct relay_seat *seat = &sandbox->relay;
  struct relay_message message;
  ssize_t got = recv(source->fd, &message, sizeof message, MSG_DONTWAIT);
  if (got == (ssize_t)sizeof message && message.word == RELAY_NEEDS_CONTROL) {
    /* Not at once: a relay that lost its mind, or an egress process that refuses, must not keep us busy. */
    seat->control_wait_ms = CONTROL_WAIT_MS_MIN;
    seat->control_at_ms = now_ms() + CONTROL_WAIT_MS_MIN;
  } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
    source_close(source); /* Its end tells why. */
    dials_cancel(launcher, sandbox, EPIPE);
    return;
  }
  hand_waiting(launcher, sandbox);
}

static int relay_begin(struct launcher *launcher, struct sandbox *sandbox) {
  struct relay_seat *seat = &sandbox->relay;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return -1;
  cleanup_fd ours = pair[0];
  cleanup_fd theirs = pair[1];
  seat->generation++;
  pid_t pid = fork();
  if (pid == 0) relay_main(launcher, sandbox, theirs);
  if (pid < 0) return -1;
  seat->pid = pid;
  seat->begun_ms = now_ms();
  seat->channel = (struct source){.fd = take_fd(&ours), .ready = channel_ready, .owner = sandbox};
  seat->control_wait_ms = CONTROL_WAIT_MS_MIN;
  if (source_add(launcher, &seat->channel) != 0) kill(pid, SIGKILL);
  give_control(launcher, sandbox);
  return 0;
}

static void listener_ready(struct launcher *launcher, struct source *source) {
  struct sandbox *sandbox = source->owner;
  struct relay_seat *seat = &sandbox->relay;
  for (unsigned i = 0; i < seat->listener_count; i++) source_leave(&seat->listeners[i]);
  if (relay_begin(launcher, sandbox) == 0) return;
  log_line("can't fork a relay for sandbox %s: %s", sandbox->name, strerror(errno));
  seat->poll_at_ms = now_ms() + AGAIN_MS_MAX;
}

static void poll_listeners(struct launcher *launcher, struct sandbox *sandbox) {
  struct relay_seat *seat = &sandbox->relay;
  seat->poll_at_ms = 0;
  for (unsigned i = 0; i < seat->listener_count; i++) (void)source_wait(launcher, &seat->listeners[i], EPOLLIN);
}

void relays_keep(struct launcher *launcher, struct sandbox *sandbox, const int *listeners, unsigned count) {
  struct relay_seat *seat = &sandbox->relay;
  for (unsigned i = 0; i < count && listeners[i] >= 0; i++) {
    seat->listeners[i] = (struct source){.fd = listeners[i], .ready = listener_ready, .owner = sandbox};
    seat->listener_count = i + 1;
  }
  poll_listeners(launcher, sandbox);
}

void relays_end(struct launcher *launcher, struct sandbox *sandbox) {
  struct relay_seat *seat = &sandbox->relay;
  if (seat->pid != 0) kill(seat->pid, SIGKILL);
  for (unsigned i = 0; i < seat->listener_count; i++) source_close(&seat->listeners[i]);
  seat->listener_count = 0;
  seat->poll_at_ms = 0;
  source_close(&seat->channel);
  seat->control_at_ms = 0;
  dials_cancel(launcher, sandbox, EPIPE);
}

void relays_ended(struct launcher *launcher, struct sandbox *sandbox, int status) {
  struct relay_seat *seat = &sandbox->relay;
  seat->pid = 0;
  source_close(&seat->channel);
  seat->control_at_ms = 0;
  dials_cancel(launcher, sandbox, EPIPE);
  if (sandbox->state == SANDBOX_ENDING || seat->listener_count == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    poll_listeners(launcher, sandbox);
    return;
  }
  log_line("the relay of sandbox %s ended with status 0x%x", sandbox->name, (unsigned)status);
  if (seat->again_ms == 0 || now_ms() - seat->begun_ms >= SHORT_LIFE_MS) seat->again_ms = AGAIN_MS_MIN;
  seat->poll_at_ms = now_ms() + seat->again_ms;
  seat->again_ms = seat->again_ms * 2 > AGAIN_MS_MAX ? AGAIN_MS_MAX : seat->again_ms * 2;
}

int64_t relays_expire(struct launcher *launcher) {
  int64_t next = 0;
  int64_t now = now_ms();
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    struct relay_seat *seat = &at->relay;
    if (seat->poll_at_ms != 0 && seat->poll_at_ms <= now) poll_listeners(launcher, at);
    if (seat->control_at_ms != 0 && seat->control_at_ms <= now) give_control(launcher, at);
    const int64_t deadlines[] = {seat->poll_at_ms, seat->control_at_ms};
    for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
      if (deadlines[i] != 0 && (next == 0 || deadlines[i] < next)) next = deadlines[i];
    }
  }
  return next;
}

void relays_hurry(struct launcher *launcher) {
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (at->relay.control_at_ms != 0) at->relay.control_at_ms = now_ms();
  }
}
