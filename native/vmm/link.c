/* Streams: see link.h. */
#include "vmm/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "vmm/connection.h"
#include "vmm/guest_socket.h"
#include "vmm/request.h"
#include "vmm/spare.h"

enum {
  GUEST_AGAIN_MS = 200,
  /* A guest that gets its device just now may never see a connection: the next one waits twice as long for it. */
  ASKED_MS = 1000,
  CONTROL_AGAIN_MS = 20,
  LISTENER_BACKLOG = 8,
};

static char guest_path[sizeof((struct sockaddr_un *)NULL)->sun_path];
static char control_path[sizeof guest_path];
static struct watch ready_listener = {.fd = -1};
static bool is_ready;
static bool is_given_up;
static unsigned waiting; /* links that are not joined */
static unsigned holds; /* streams as long as which nobody is let through */
static bool is_asked_for; /* somebody was let through since: the device is there */

static void far_ready(void *owner, uint32_t events);

static void try_all(void) {
  for (struct connection *at = NULL; (at = connection_next(at, CONNECTION_LINK)) != NULL;) at->link.again_ms = 0;
}

/* That it came is all it says. Any process of the guest may come here, and once is enough. */
static void guest_came(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  int fd = accept4(ready_listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  (void)close(fd);
  watch_close(&ready_listener);
  is_ready = true;
  try_all();
}

/* With nothing of an earlier life in its place. Returns -1 with errno. */
static int open_listener(const char *path, const char *suffix) {
  struct sockaddr_un address;
  if (socket_address(&address, path, suffix) != 0) return -1;
  cleanup_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  (void)unlink(address.sun_path);
  bool is_open = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, LISTENER_BACKLOG) == 0;
  return is_open ? take_fd(&fd) : -1;
}

void links_are_ready(void) { is_ready = true; }

int links_start(const char *guest, const char *control) {
  struct sockaddr_un address;
  char suffix[8];
  if (socket_address(&address, control, "") != 0) return -1;
  memcpy(control_path, address.sun_path, sizeof control_path);
  if (socket_address(&address, guest, "") != 0) return -1;
  memcpy(guest_path, address.sun_path, sizeof guest_path);
  (void)snprintf(suffix, sizeof suffix, "_%d", VMM_READY_PORT);
  int fd = open_listener(guest, suffix);
  if (fd < 0) return -1;
  watch_start(&ready_listener, fd, guest_came, NULL);
  watch_for(&ready_listener, EPOLLIN);
  return 0;
}

void links_give_up(void) {
  is_given_up = true;
  try_all();
}

/* --- reaching it ------------------------------------------------------------------------------------------ */

static void begin(struct connection *connection, bool is_control, uint16_t port) {
  int64_t patience_ms = is_control ? VMM_CONTROL_MS : VMM_GUEST_MS;
  connection->kind = CONNECTION_LINK;
  connection->link = (struct link){.is_control = is_control, .port = port, .deadline_ms = clock_ms() + patience_ms};
  connection->link.far.fd = -1;
  waiting++;
  watch_for_hangup(&connection->watch);
}

void link_request_guest(struct connection *connection, uint8_t *payload, size_t length) {
  uint16_t port = 0;
  const char *wrong = guest_request_parse(payload, length, &port);
  if (wrong == NULL) begin(connection, false, port);
  else connection_refuse(connection, "bad_request", EINVAL, wrong);
}

void link_request_control(struct connection *connection, uint8_t *payload, size_t length) {
  (void)payload;
  if (length == 0) begin(connection, true, 0);
  else connection_refuse(connection, "bad_request", EINVAL, "a field has no business in this request");
}

void link_request_device(struct connection *connection, uint8_t *payload, size_t length) {
  link_request_control(connection, payload, length);
  if (connection->kind == CONNECTION_LINK) connection->link.holds_guest = true;
}

/* Back to waiting, or the end of it. */
static void not_yet(struct connection *connection, int number) {
  struct link *link = &connection->link;
  watch_close(&link->far);
  link->state = LINK_WAITS;
  int64_t now = clock_ms();
  if (!is_given_up && now < link->deadline_ms) {
    link->again_ms = now + (link->is_control ? CONTROL_AGAIN_MS : GUEST_AGAIN_MS);
    return;
  }
  const char *what = is_given_up         ? "the VMM was not started"
                     : link->is_control  ? "the VMM's control socket does not answer"
                     : is_ready          ? "nobody in the guest takes the connection"
                                         : "the guest does not get ready";
  waiting--;
  connection_refuse(connection, "vmm_failed", number, what);
}

/* Joined when the VMM comes; who asked ends it when he no longer waits. */
void link_request_memory(struct connection *connection, uint8_t *payload, size_t length) {
  (void)payload;
  if (length != 0 || control_path[0] == '\0') {
    connection_refuse(connection, "bad_request", EINVAL, "no VMM was started, or a field has no business in this request");
    return;
  }
  int fd = open_listener(control_path, "_memory");
  if (fd < 0) {
    connection_refuse(connection, "vmm_failed", errno, "the socket that the VMM gives its guest's memory to");
    return;
  }
  connection->kind = CONNECTION_LINK;
  connection->link = (struct link){.state = LINK_LISTENS};
  watch_start(&connection->link.far, fd, far_ready, connection);
  if (!connection_begin_raw(connection)) return;
  watch_for(&connection->link.far, EPOLLIN);
  watch_for_hangup(&connection->watch);
}

/* Who has asked asks anew behind it. */
static void hold_guests(void) {
  holds++;
  is_asked_for = false;
  spare_drop();
  for (struct connection *at = NULL; (at = connection_next(at, CONNECTION_LINK)) != NULL;) {
    if (at->link.state == LINK_ASKS) not_yet(at, EAGAIN);
  }
}

/*
 * Behind a change of the device the guest's ends are gone. Firecracker does not tell the host so: its guest drops them without a word. What
 * was said before is heard to its end.
 */
static void end_joined(void) {
  for (struct connection *at = NULL; (at = connection_next(at, CONNECTION_LINK)) != NULL;) {
    if (at->link.state == LINK_JOINED && at->link.port != 0) (void)shutdown(at->link.far.fd, SHUT_RDWR);
  }
}

static void joined(struct connection *connection) {
  struct link *link = &connection->link;
  link->state = LINK_JOINED;
  waiting--;
  if (link->holds_guest) hold_guests();
  if (!link->is_control) is_asked_for = true;
  if (connection_begin_raw(connection)) link_ready(connection, 0);
}

static void await_answer(struct connection *connection) {
  struct link *link = &connection->link;
  link->state = LINK_ASKS;
  link->asked_ms = link->asked_ms == 0 ? ASKED_MS : 2 * link->asked_ms;
  link->again_ms = clock_ms() + link->asked_ms;
  watch_for(&link->far, EPOLLIN);
}

static void ask(struct connection *connection) {
  struct link *link = &connection->link;
  link->heard.used = 0;
  if (link->is_control) joined(connection);
  else if (guest_ask(link->far.fd, link->port) != 0) not_yet(connection, errno);
  else await_answer(connection);
}

static bool guest_is_open(void) { return is_ready && holds == 0 && !is_given_up; }

static bool has_taken_spare(struct connection *connection) {
  bool is_there;
  struct link *link = &connection->link;
  int fd = link->port == VMM_GUEST_PORT && guest_is_open() ? spare_take(&link->heard, &is_there) : -1;
  if (fd < 0) return false;
  watch_start(&link->far, fd, far_ready, connection);
  if (is_there) joined(connection);
  else await_answer(connection);
  return true;
}

static void attempt(struct connection *connection) {
  struct link *link = &connection->link;
  if (!link->is_control && has_taken_spare(connection)) return;
  bool is_known = link->is_control ? control_path[0] != '\0' && !is_given_up : guest_is_open();
  int fd = is_known ? socket_reach(link->is_control ? control_path : guest_path) : -1;
  if (fd < 0) {
    not_yet(connection, is_known ? errno : 0);
    return;
  }
  watch_start(&link->far, fd, far_ready, connection);
  ask(connection);
}

int links_turn(void) {
  if (waiting == 0) return -1;
  int64_t now = clock_ms();
  int64_t next = now + VMM_GUEST_MS;
  for (struct connection *at = NULL; (at = connection_next(at, CONNECTION_LINK)) != NULL;) {
    struct link *link = &at->link;
    if (link->state == LINK_JOINED || link->state == LINK_LISTENS) continue;
    if (link->state == LINK_WAITS && link->again_ms <= now) attempt(at);
    else if (link->state == LINK_ASKS && (is_given_up || link->deadline_ms <= now || link->again_ms <= now)) not_yet(at, ETIMEDOUT);
    if (at->kind != CONNECTION_LINK || link->state == LINK_JOINED) continue;
    int64_t due = link->again_ms < link->deadline_ms ? link->again_ms : link->deadline_ms;
    if (due < next) next = due;
  }
  return waiting == 0 ? -1 : next <= now ? 0 : (int)(next - now);
}

static void hear_ok(struct connection *connection) {
  enum guest_answer answer = guest_hear(connection->link.far.fd, &connection->link.heard);
  if (answer == GUEST_IS_THERE) joined(connection);
  else if (answer == GUEST_REFUSES) not_yet(connection, errno);
}

/* --- joined ----------------------------------------------------------------------------------------------- */

static bool is_over(const struct transfer *transfer) {
  return transfer->is_ended && transfer->kept == NULL;
}

static void move(struct transfer *transfer, bool *is_dead, int from, int to) {
  if (*is_dead) return;
  enum transfer_outcome outcome = transfer_run(transfer, from, to);
  if (outcome == TRANSFER_UNREAD) transfer->is_ended = true;
  if (outcome != TRANSFER_NOT_TAKEN) return;
  *is_dead = true;
  transfer_forget(transfer);
}

/*
 * The one side's end ends both, when what it said before is with the other side. A side that takes nothing any more may still have said
 * something: it is heard to its end. What comes from the guest goes first, or its end would be met by what it does not take.
 */
static void join(struct connection *connection) {
  struct link *link = &connection->link;
  int near = connection->watch.fd;
  move(&link->down, &link->is_down_dead, link->far.fd, near);
  if (!link->down.is_ended) move(&link->up, &link->is_up_dead, near, link->far.fd);
  if (is_over(&link->up) || is_over(&link->down) || (link->is_up_dead && link->is_down_dead)) {
    connection_close(connection);
    return;
  }
  uint32_t from_near = transfer_interest(&link->up, &link->down);
  uint32_t from_far = transfer_interest(&link->down, &link->up);
  /* Its end is waited for all the same. */
  if (link->is_up_dead || link->down.is_ended) from_near &= ~(uint32_t)EPOLLIN;
  if (link->is_down_dead) from_far &= ~(uint32_t)EPOLLIN;
  watch_for(&connection->watch, from_near);
  watch_for(&link->far, from_far);
}

static void vmm_came(struct connection *connection) {
  struct link *link = &connection->link;
  int fd = accept4(link->far.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  watch_close(&link->far);
  watch_start(&link->far, fd, far_ready, connection);
  link->state = LINK_JOINED;
  join(connection);
}

static void far_ready(void *owner, uint32_t events) {
  (void)events;
  struct connection *connection = owner;
  if (connection->link.state == LINK_LISTENS) vmm_came(connection);
  else if (connection->link.state == LINK_ASKS) hear_ok(connection);
  else if (connection->link.state == LINK_JOINED) join(connection);
}

void link_ready(struct connection *connection, uint32_t events) {
  (void)events;
  /* Only the hang-up is waited for until it is joined. */
  if (connection->link.state == LINK_JOINED) join(connection);
  else connection_close(connection);
}

void link_closing(struct connection *connection) {
  struct link *link = &connection->link;
  if (link->state == LINK_WAITS || link->state == LINK_ASKS) waiting--;
  if (link->holds_guest && link->state == LINK_JOINED && --holds == 0) {
    end_joined();
    try_all();
  }
  watch_close(&link->far);
  transfer_forget(&link->up);
  transfer_forget(&link->down);
  /* Nobody is meant to come to a device that was taken away, and what ends may end late. */
  if (link->state == LINK_JOINED && link->port != 0 && is_asked_for && guest_is_open()) spare_make(guest_path);
}
