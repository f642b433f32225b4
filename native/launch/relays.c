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
#include "common/clock.h"
#include "launch/ids.h"
#include "launch/log.h"
#include "launch/message.h"
#include "launch/socket.h"
#include "launch/oom.h"
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

static unsigned connections_of_relay(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 2 * RELAY_OWN_FILES) return RELAY_OWN_FILES / 2;
  rlim_t most = (limit.rlim_max - RELAY_OWN_FILES) / 2;
  return most < RELAY_CONNECTIONS_MAX ? (unsigned)most : RELAY_CONNECTIONS_MAX;
}

/* What is left for the relay in this place when all before it are full. */
static struct relay_plan plan_for(const struct relay_seat *relay) {
  unsigned place = (unsigned)(relay - relay->sandbox->network.relays);
  unsigned each = connections_of_relay();
  unsigned left = RELAY_CONNECTIONS_MAX - place * each;
  return (struct relay_plan){.listeners = {-1, -1, -1, -1},
                             .connection_base = relay->generation << 32,
                             .connections_max = each < left ? each : left,
                             .is_last = each >= left || place + 1 == RELAYS_OF_SANDBOX_MAX,
                             .idle_ms = RELAY_IDLE_MS,
                             .hold_ms = RELAY_HOLD_MS};
}

static _Noreturn void relay_main(const struct launcher *launcher, const struct relay_seat *relay, int channel) {
  const struct network_seat *seat = &relay->sandbox->network;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  title_set("squash-relay %s %s", relay->sandbox->name, launcher->data);
  oom_raise(OOM_RELAY);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int network = ioctl(seat->listeners[0].fd, SIOCGSKNS);
  int descriptors[2 + LISTENERS_MAX] = {channel, network};
  for (unsigned i = 0; i < seat->listener_count; i++) descriptors[2 + i] = seat->listeners[i].fd;
  if (null < 0 || network < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
      place_descriptors(descriptors, 2 + (int)seat->listener_count) != 0) {
    _exit(2);
  }
  close_from(3 + 2 + (int)seat->listener_count);
  struct relay_plan plan = plan_for(relay);
  plan.launcher_fd = 3;
  /* Queries are the first relay's alone. */
  bool is_first = relay == seat->relays;
  for (unsigned i = 0; i < seat->listener_count; i++) plan.listeners[i] = is_first || i % 2 == 0 ? 5 + (int)i : -1;
  struct relay_identity identity = {.keeps_id = launcher->is_single, .id = RELAY_ID, .network_fd = 4};
  if (relay_confine(&identity) != 0) _exit(3);
  _exit(relay_run(&plan));
}

static int64_t earlier(int64_t left, int64_t right) {
  return left == 0 || (right != 0 && right < left) ? right : left;
}

/* Sandboxes are many and events too: they are looked at when the first of them is due, not at every event. */
static int64_t due_in(struct launcher *launcher, int64_t wait_ms) {
  int64_t due_ms = now_ms() + wait_ms;
  launcher->relays_due_ms = earlier(launcher->relays_due_ms, due_ms);
  return due_ms;
}

/* Connects to the egress process in the relay's name. Where it is away the next try is set. */
static void give_control(struct launcher *launcher, struct relay_seat *relay) {
  uint8_t buffer[128 + SANDBOX_NAME_BYTES_MAX];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  struct relay_message message = {.word = RELAY_CONTROL};
  frame_begin(&writer, FRAME_RELAY_HELLO);
  frame_integer(&writer, FIELD_PROTOCOL, PROTOCOL_VERSION);
  frame_integer(&writer, FIELD_INSTANCE, relay->sandbox->instance);
  frame_text(&writer, FIELD_NAME, relay->sandbox->name);
  size_t length = frame_finish(&writer);
  cleanup_fd fd = socket_connect_now(launcher->run_fd, "egress.sock");
  relay->control_at_ms = 0;
  if (fd >= 0 && send(fd, buffer, length, MSG_NOSIGNAL) == (ssize_t)length &&
      message_send(relay->channel.fd, &message, sizeof message, (const int[]){fd}, 1) == 0) {
    return;
  }
  relay->control_at_ms = due_in(launcher, relay->control_wait_ms);
  relay->control_wait_ms *= 2;
  if (relay->control_wait_ms > CONTROL_WAIT_MS_MAX) relay->control_wait_ms = CONTROL_WAIT_MS_MAX;
}

/* Returns 0 when handed over, 1 when the channel has no room now, -1 when the relay is gone. */
static int hand(const struct relay_seat *relay, const struct dial *dial) {
  struct relay_message message = {.word = RELAY_UPSTREAM, .connection = dial->connection};
  if (message_send(relay->channel.fd, &message, sizeof message, &dial->source.fd, 1) == 0) return 0;
  /* ETOOMANYREFS: as many descriptors are under way between processes as this user may have open. */
  return errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS ? 1 : -1;
}

static void hand_waiting(struct launcher *launcher, struct relay_seat *relay) {
  if (relay->handover_first == NULL) return;
  while (relay->handover_first != NULL) {
    struct dial *dial = relay->handover_first;
    int handed = hand(relay, dial);
    if (handed > 0) return;
    dial_end(launcher, dial, handed == 0 ? 0 : EPIPE);
  }
  (void)source_wait(launcher, &relay->channel, EPOLLIN);
}

void relays_hand(struct launcher *launcher, struct dial *dial) {
  struct relay_seat *relay = dial->relay;
  int handed = relay->channel.fd < 0 ? -1 : relay->handover_first != NULL ? 1 : hand(relay, dial);
  if (handed <= 0) {
    dial_end(launcher, dial, handed == 0 ? 0 : EPIPE);
    return;
  }
  dial->is_connected = true;
  if (relay->handover_last != NULL) relay->handover_last->next_handover = dial;
  else relay->handover_first = dial;
  relay->handover_last = dial;
  (void)source_wait(launcher, &relay->channel, EPOLLIN | EPOLLOUT);
}

struct relay_seat *relays_with(struct sandbox *sandbox, uint64_t connection) {
  for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
    struct relay_seat *relay = &sandbox->network.relays[i];
    if (relay->channel.fd >= 0 && connection >> 32 == relay->generation) return relay;
  }
  return NULL;
}

static int begin_in(struct launcher *launcher, struct relay_seat *relay);

/* In the first place that is free; where none is, connections wait in the listeners' queues. */
static void add_relay(struct launcher *launcher, struct sandbox *sandbox) {
  for (unsigned i = 1; i < RELAYS_OF_SANDBOX_MAX; i++) {
    if (sandbox->network.relays[i].pid != 0) continue;
    if (begin_in(launcher, &sandbox->network.relays[i]) != 0) log_line("can't fork another relay: %s", strerror(errno));
    return;
  }
}

/* Returns false where the relay is gone, or has lost its mind. */
static bool obey(struct launcher *launcher, struct relay_seat *relay, const struct relay_message *message) {
  switch (message->word) {
    case RELAY_NEEDS_CONTROL:
      /* Not at once: an egress process that refuses must not keep us busy. */
      relay->control_wait_ms = CONTROL_WAIT_MS_MIN;
      relay->control_at_ms = due_in(launcher, CONTROL_WAIT_MS_MIN);
      return true;
    case RELAY_FULL: add_relay(launcher, relay->sandbox); return true;
    default: return false;
  }
}

static void channel_ready(struct launcher *launcher, struct source *source) {
  struct relay_seat *relay = source->owner;
  struct relay_message message;
  ssize_t got = recv(source->fd, &message, sizeof message, MSG_DONTWAIT);
  bool is_there = got < 0 ? errno == EAGAIN || errno == EINTR
                          : got == (ssize_t)sizeof message && obey(launcher, relay, &message);
  if (is_there) {
    hand_waiting(launcher, relay);
    return;
  }
  source_close(source); /* Its end tells why. */
  dials_cancel(launcher, relay, EPIPE);
  if (relay->pid != 0) kill(relay->pid, SIGKILL);
}

static int begin_in(struct launcher *launcher, struct relay_seat *relay) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return -1;
  cleanup_fd ours = pair[0];
  cleanup_fd theirs = pair[1];
  relay->generation = ++relay->sandbox->network.generation;
  pid_t pid = fork();
  if (pid == 0) relay_main(launcher, relay, theirs);
  if (pid < 0) return -1;
  relay->pid = pid;
  relay->begun_ms = now_ms();
  relay->channel = (struct source){.fd = take_fd(&ours), .ready = channel_ready, .owner = relay};
  relay->control_wait_ms = CONTROL_WAIT_MS_MIN;
  if (source_add(launcher, &relay->channel) != 0) kill(pid, SIGKILL);
  give_control(launcher, relay);
  /* A daemon may have put off the start of the egress process until somebody waits for it. */
  if (launcher->egress == NULL) sandbox_announce(launcher, relay->sandbox, "relay_waits");
  return 0;
}

static void listener_ready(struct launcher *launcher, struct source *source) {
  struct sandbox *sandbox = source->owner;
  struct network_seat *seat = &sandbox->network;
  for (unsigned i = 0; i < seat->listener_count; i++) source_leave(&seat->listeners[i]);
  if (begin_in(launcher, &seat->relays[0]) == 0) return;
  log_line("can't fork a relay for sandbox %s: %s", sandbox->name, strerror(errno));
  seat->poll_at_ms = due_in(launcher, AGAIN_MS_MAX);
}

static void poll_listeners(struct launcher *launcher, struct sandbox *sandbox) {
  struct network_seat *seat = &sandbox->network;
  seat->poll_at_ms = 0;
  for (unsigned i = 0; i < seat->listener_count; i++) (void)source_wait(launcher, &seat->listeners[i], EPOLLIN);
}

void relays_prepare(struct sandbox *sandbox) {
  for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
    sandbox->network.relays[i] = (struct relay_seat){.sandbox = sandbox, .channel = {.fd = -1}};
  }
}

void relays_keep(struct launcher *launcher, struct sandbox *sandbox, const int *listeners, unsigned count) {
  struct network_seat *seat = &sandbox->network;
  for (unsigned i = 0; i < count && listeners[i] >= 0; i++) {
    seat->listeners[i] = (struct source){.fd = listeners[i], .ready = listener_ready, .owner = sandbox};
    seat->listener_count = i + 1;
  }
  poll_listeners(launcher, sandbox);
}

static void let_go(struct launcher *launcher, struct relay_seat *relay) {
  source_close(&relay->channel);
  relay->control_at_ms = 0;
  dials_cancel(launcher, relay, EPIPE);
}

void relays_end(struct launcher *launcher, struct sandbox *sandbox) {
  struct network_seat *seat = &sandbox->network;
  for (unsigned i = 0; i < seat->listener_count; i++) source_close(&seat->listeners[i]);
  seat->listener_count = 0;
  seat->poll_at_ms = 0;
  for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
    struct relay_seat *relay = &seat->relays[i];
    if (relay->pid == 0) continue;
    kill(relay->pid, SIGKILL);
    let_go(launcher, relay);
  }
}

bool relays_run(const struct sandbox *sandbox) {
  for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
    if (sandbox->network.relays[i].pid != 0) return true;
  }
  return false;
}

static struct relay_seat *relay_of(struct sandbox *sandbox, pid_t pid) {
  for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
    if (sandbox->network.relays[i].pid == pid) return &sandbox->network.relays[i];
  }
  return NULL;
}

bool relays_have(const struct launcher *launcher, pid_t pid) {
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    if (relay_of(at, pid) != NULL) return true;
  }
  return false;
}

bool relays_ended(struct launcher *launcher, struct sandbox *sandbox, pid_t pid, int status) {
  struct network_seat *seat = &sandbox->network;
  struct relay_seat *relay = relay_of(sandbox, pid);
  if (relay == NULL) return false;
  relay->pid = 0;
  let_go(launcher, relay);
  bool is_fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (sandbox->state == SANDBOX_ENDING || seat->listener_count == 0) return true;
  if (!is_fine) log_line("a relay of sandbox %s ended with status 0x%x", sandbox->name, (unsigned)status);
  if (relay != seat->relays) return true; /* One that is full asks for it again. */
  if (is_fine) {
    poll_listeners(launcher, sandbox);
    return true;
  }
  if (seat->again_ms == 0 || now_ms() - relay->begun_ms >= SHORT_LIFE_MS) seat->again_ms = AGAIN_MS_MIN;
  seat->poll_at_ms = due_in(launcher, seat->again_ms);
  seat->again_ms = seat->again_ms * 2 > AGAIN_MS_MAX ? AGAIN_MS_MAX : seat->again_ms * 2;
  return true;
}

int64_t relays_expire(struct launcher *launcher) {
  int64_t next = 0;
  int64_t now = now_ms();
  if (launcher->relays_due_ms == 0 || now < launcher->relays_due_ms) return launcher->relays_due_ms;
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    struct network_seat *seat = &at->network;
    if (seat->poll_at_ms != 0 && seat->poll_at_ms <= now) poll_listeners(launcher, at);
    next = earlier(next, seat->poll_at_ms);
    for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
      struct relay_seat *relay = &seat->relays[i];
      if (relay->control_at_ms != 0 && relay->control_at_ms <= now) give_control(launcher, relay);
      next = earlier(next, relay->control_at_ms);
    }
  }
  launcher->relays_due_ms = next;
  return next;
}

void relays_hurry(struct launcher *launcher) {
  for (struct sandbox *at = launcher->sandboxes; at != NULL; at = at->next) {
    for (unsigned i = 0; i < RELAYS_OF_SANDBOX_MAX; i++) {
      if (at->network.relays[i].control_at_ms != 0) at->network.relays[i].control_at_ms = due_in(launcher, 0);
    }
  }
}
