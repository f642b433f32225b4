/*
 * The relay at work in a network namespace of its own, with the rules that sandboxes have. The test is launcher,
 * egress process, program and upstream at once; the relay is its child.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "launch/message.h"
#include "launch/network.h"
#include "relay/relay.h"
#include "tests/check.h"

enum { WAIT_MS = 10000, PIECE_BYTES = 65536 };

static struct network network;

struct scene {
  pid_t relay;
  int channel;
  int control; /* the egress process's end; -1: none given */
};

static struct scene scene_begin(struct relay_plan plan, bool with_control) {
  int channel[2];
  int control[2];
  struct scene scene = {.control = -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) abort();
  plan.launcher_fd = channel[1];
  for (unsigned i = 0; i < LISTENERS_MAX; i++) plan.listeners[i] = network.listeners[i];
  scene.relay = fork();
  if (scene.relay == 0) {
    close(channel[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    exit(relay_run(&plan));
  }
  close(channel[1]);
  scene.channel = channel[0];
  if (!with_control) return scene;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) abort();
  struct relay_message message = {.word = RELAY_CONTROL};
  CHECK(message_send(scene.channel, &message, sizeof message, &control[1], 1) == 0);
  close(control[1]);
  scene.control = control[0];
  return scene;
}

static int status_of(const struct scene *scene) {
  int status = 0;
  while (waitpid(scene->relay, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static void scene_end(struct scene *scene) {
  close_fd(&scene->channel);
  close_fd(&scene->control);
  int status = status_of(scene);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static const struct relay_plan usual = {
    .connection_base = 4, .connections_max = 100, .is_last = true, .idle_ms = 60000, .hold_ms = 60000};

static bool is_ready(int fd, short events) {
  struct pollfd waiting = {.fd = fd, .events = events};
  return poll(&waiting, 1, WAIT_MS) == 1;
}

static int program_connect(const char *address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  inet_pton(AF_INET, address, &to.sin_addr);
  CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
  return fd;
}

/* The next frame of the relay: its type, and its fields by tag. */
struct heard {
  uint8_t type;
  uint64_t numbers[FIELD_TAG_MAX + 1];
  size_t lengths[FIELD_TAG_MAX + 1];
  uint8_t bytes[FIELD_TAG_MAX + 1][64];
};

static struct heard hear(int control) {
  static uint8_t payload[32768];
  uint8_t bytes[FRAME_HEADER_BYTES];
  struct heard heard = {0};
  struct frame_header header;
  struct field_reader reader;
  struct field field;
  if (!is_ready(control, POLLIN) || read_whole(control, bytes, sizeof bytes) != 1) return heard;
  if (frame_header_parse(bytes, &header) != FRAME_FINE || header.length > sizeof payload) return heard;
  if (header.length > 0 && read_whole(control, payload, header.length) != 1) return heard;
  heard.type = header.type;
  field_reader_start(&reader, payload, header.length);
  while (field_next(&reader, &field)) {
    heard.numbers[field.tag] = field.number;
    heard.lengths[field.tag] = field.length;
    memcpy(heard.bytes[field.tag], field.bytes, field.length < 64 ? field.length : 64);
  }
  CHECK(reader.fault == FRAME_FINE);
  return heard;
}

static void command(int control, uint8_t type, uint64_t connection, uint64_t bytes_max) {
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, type);
  frame_integer(&writer, FIELD_CONNECTION, connection);
  if (bytes_max > 0) frame_integer(&writer, FIELD_BYTES_MAX, bytes_max);
  CHECK(write_whole(control, buffer, frame_finish(&writer)) == 0);
}

/* Hands one end of a pair over; returns the other. */
static int give_upstream(const struct scene *scene, uint64_t connection) {
  int pair[2];
  struct relay_message message = {.word = RELAY_UPSTREAM, .connection = connection};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) abort();
  CHECK(message_send(scene->channel, &message, sizeof message, &pair[1], 1) == 0);
  close(pair[1]);
  CHECK(set_blocking(pair[0], true) == 0);
  return pair[0];
}

static bool hears_reset(int program) {
  char byte;
  return is_ready(program, POLLIN) && recv(program, &byte, 1, 0) < 0 && errno == ECONNRESET;
}

static void a_connection_is_announced_held_and_tunnelled(void) {
  struct scene scene = scene_begin(usual, true);
  char text[16] = {0};
  int program = program_connect("93.184.216.34", 443);
  struct heard open = hear(scene.control);
  CHECK(open.type == FRAME_CONNECTION_OPEN && open.numbers[FIELD_CONNECTION] == 5);
  CHECK(open.numbers[FIELD_PORT] == 443 && open.lengths[FIELD_ADDRESS] == 4);
  CHECK(memcmp(open.bytes[FIELD_ADDRESS], "\x5d\xb8\xd8\x22", 4) == 0);
  command(scene.control, FRAME_CONNECTION_HOLD, 5, 100);
  CHECK(write_whole(program, "hello", 5) == 0);
  struct heard first = hear(scene.control);
  CHECK(first.type == FRAME_CONNECTION_FIRST && first.lengths[FIELD_FIRST_BYTES] == 5);
  CHECK(memcmp(first.bytes[FIELD_FIRST_BYTES], "hello", 5) == 0 && first.numbers[FIELD_ENDED] == 0);
  int upstream = give_upstream(&scene, 5);
  CHECK(write_whole(upstream, "banner", 6) == 0);
  CHECK(read_whole(program, text, 6) == 1 && memcmp(text, "banner", 6) == 0);
  command(scene.control, FRAME_CONNECTION_RELEASE, 5, 0);
  CHECK(read_whole(upstream, text, 5) == 1 && memcmp(text, "hello", 5) == 0);
  shutdown(program, SHUT_WR);
  CHECK(read_whole(upstream, text, 1) == 0);
  CHECK(write_whole(upstream, "last", 4) == 0);
  close(upstream);
  CHECK(read_whole(program, text, 4) == 1 && read_whole(program, text, 1) == 0);
  struct heard closed = hear(scene.control);
  CHECK(closed.type == FRAME_CONNECTION_CLOSED && closed.numbers[FIELD_REASON] == 0);
  CHECK(closed.numbers[FIELD_BYTES_UP] == 5 && closed.numbers[FIELD_BYTES_DOWN] == 10);
  close(program);
  scene_end(&scene);
}

/* A reader that stands still stops the writer, and nothing is lost or mixed when it goes on. */
static void bytes_wait_for_a_slow_reader(void) {
  struct scene scene = scene_begin(usual, true);
  enum { CONNECTIONS = 80, BYTES = 20000000 }; /* more than there are pipes */
  static uint8_t piece[PIECE_BYTES];
  int programs[CONNECTIONS];
  int upstreams[CONNECTIONS];
  size_t sent[CONNECTIONS] = {0};
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    programs[i] = program_connect("1.2.3.4", 80);
    uint64_t id = hear(scene.control).numbers[FIELD_CONNECTION];
    upstreams[i] = give_upstream(&scene, id);
    command(scene.control, FRAME_CONNECTION_RELEASE, id, 0);
  }
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    memset(piece, (int)i, sizeof piece);
    struct pollfd writable = {.fd = programs[i], .events = POLLOUT};
    while (sent[i] < BYTES && poll(&writable, 1, 20) == 1) {
      ssize_t put = send(programs[i], piece, sizeof piece, MSG_DONTWAIT);
      if (put <= 0) break;
      sent[i] += (size_t)put;
    }
    CHECK(sent[i] > 0 && sent[i] < BYTES);
    shutdown(programs[i], SHUT_WR);
  }
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    size_t received = 0;
    ssize_t got;
    while (is_ready(upstreams[i], POLLIN) && (got = recv(upstreams[i], piece, sizeof piece, 0)) > 0) {
      for (ssize_t at = 0; at < got; at++) {
        if (piece[at] != (uint8_t)i) abort();
      }
      received += (size_t)got;
    }
    CHECK(received == sent[i]);
    close(upstreams[i]);
    close(programs[i]);
  }
  for (unsigned i = 0; i < CONNECTIONS; i++) CHECK(hear(scene.control).type == FRAME_CONNECTION_CLOSED);
  scene_end(&scene);
}

static void resets_pass_through(void) {
  struct scene scene = scene_begin(usual, true);
  struct linger hard = {.l_onoff = 1};
  int program = program_connect("1.2.3.4", 80);
  uint64_t id = hear(scene.control).numbers[FIELD_CONNECTION];
  command(scene.control, FRAME_CONNECTION_RESET, id, 0);
  CHECK(hear(scene.control).numbers[FIELD_REASON] == 3);
  CHECK(hears_reset(program));
  close(program);
  program = program_connect("1.2.3.4", 80);
  CHECK(hear(scene.control).type == FRAME_CONNECTION_OPEN);
  setsockopt(program, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close(program);
  struct heard closed = hear(scene.control);
  CHECK(closed.type == FRAME_CONNECTION_CLOSED && closed.numbers[FIELD_REASON] == 1);
  /* The upstream of a connection that is gone is closed. */
  char byte;
  int late = give_upstream(&scene, closed.numbers[FIELD_CONNECTION]);
  CHECK(is_ready(late, POLLIN) && recv(late, &byte, 1, 0) == 0);
  close(late);
  scene_end(&scene);
}

static void nonsense_ends_the_control_connection(void) {
  struct scene scene = scene_begin(usual, true);
  struct relay_message message;
  int program = program_connect("1.2.3.4", 80);
  CHECK(hear(scene.control).type == FRAME_CONNECTION_OPEN);
  CHECK(write_whole(scene.control, "\xff\xff\xff\xff garbage", 12) == 0);
  char byte;
  CHECK(is_ready(scene.control, POLLIN) && recv(scene.control, &byte, 1, 0) <= 0);
  CHECK(is_ready(scene.channel, POLLIN) && recv(scene.channel, &message, sizeof message, 0) == sizeof message);
  CHECK(message.word == RELAY_NEEDS_CONTROL);
  /* Undecided, it is announced to the next one under a new number. */
  int control[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) abort();
  message = (struct relay_message){.word = RELAY_CONTROL};
  CHECK(message_send(scene.channel, &message, sizeof message, &control[1], 1) == 0);
  close(control[1]);
  close(scene.control);
  scene.control = control[0];
  struct heard again = hear(scene.control);
  CHECK(again.type == FRAME_CONNECTION_OPEN && again.numbers[FIELD_CONNECTION] == 6);
  close(program);
  scene_end(&scene);
}

static void nothing_passes_without_an_egress_process(void) {
  struct relay_plan plan = usual;
  plan.hold_ms = 300;
  struct scene scene = scene_begin(plan, false);
  int program = program_connect("1.2.3.4", 80);
  CHECK(hears_reset(program));
  close(program);
  scene_end(&scene);
}

static void an_idle_relay_ends(void) {
  struct relay_plan plan = usual;
  plan.idle_ms = 100;
  struct scene scene = scene_begin(plan, true);
  int status = status_of(&scene);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close_fd(&scene.channel);
  close_fd(&scene.control);
}

static void a_full_relay_says_so(void) {
  struct relay_plan plan = usual;
  struct relay_message message;
  plan.connections_max = 2;
  plan.is_last = false;
  struct scene scene = scene_begin(plan, true);
  int programs[3];
  for (unsigned i = 0; i < 3; i++) programs[i] = program_connect("1.2.3.4", 80);
  CHECK(is_ready(scene.channel, POLLIN) && recv(scene.channel, &message, sizeof message, 0) == sizeof message);
  CHECK(message.word == RELAY_FULL);
  CHECK(hear(scene.control).type == FRAME_CONNECTION_OPEN && hear(scene.control).type == FRAME_CONNECTION_OPEN);
  command(scene.control, FRAME_CONNECTION_RESET, 5, 0);
  CHECK(hear(scene.control).type == FRAME_CONNECTION_CLOSED);
  CHECK(hear(scene.control).type == FRAME_CONNECTION_OPEN); /* The third waited in the queue. */
  for (unsigned i = 0; i < 3; i++) close(programs[i]);
  scene_end(&scene);
  plan.is_last = true;
  scene = scene_begin(plan, true);
  for (unsigned i = 0; i < 3; i++) programs[i] = program_connect("1.2.3.4", 80);
  CHECK(hears_reset(programs[2]));
  for (unsigned i = 0; i < 3; i++) close(programs[i]);
  scene_end(&scene);
}

static void queries_come_back_from_where_they_went(void) {
  struct scene scene = scene_begin(usual, true);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
  uint8_t buffer[256];
  char text[16];
  inet_pton(AF_INET, "9.9.9.9", &to.sin_addr);
  int program = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  CHECK(connect(program, (struct sockaddr *)&to, sizeof to) == 0 && send(program, "query", 5, 0) == 5);
  struct heard query = hear(scene.control);
  CHECK(query.type == FRAME_DNS_QUERY && memcmp(query.bytes[FIELD_MESSAGE], "query", 5) == 0);
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_DNS_ANSWER);
  frame_bytes(&writer, FIELD_PEER, query.bytes[FIELD_PEER], query.lengths[FIELD_PEER]);
  frame_text(&writer, FIELD_MESSAGE, "answer");
  CHECK(write_whole(scene.control, buffer, frame_finish(&writer)) == 0);
  CHECK(is_ready(program, POLLIN) && recv(program, text, sizeof text, 0) == 6 && memcmp(text, "answer", 6) == 0);
  /* A peer that is none of ours goes nowhere and harms nobody. */
  frame_begin(&writer, FRAME_DNS_ANSWER);
  frame_bytes(&writer, FIELD_PEER, "\x09 whatever", 10);
  frame_text(&writer, FIELD_MESSAGE, "answer");
  CHECK(write_whole(scene.control, buffer, frame_finish(&writer)) == 0);
  CHECK(send(program, "again", 5, 0) == 5 && hear(scene.control).type == FRAME_DNS_QUERY);
  close(program);
  scene_end(&scene);
}

int main(void) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    (void)fprintf(stderr, "skipped: no user and network namespace here: %s\n", strerror(errno));
    return 0;
  }
  CHECK(network_set_up(&network) == 0);
  if (network.warning[0] != '\0') {
    (void)fprintf(stderr, "skipped: %s\n", network.warning);
    return 0;
  }
  a_connection_is_announced_held_and_tunnelled();
  bytes_wait_for_a_slow_reader();
  resets_pass_through();
  nonsense_ends_the_control_connection();
  nothing_passes_without_an_egress_process();
  an_idle_relay_ends();
  a_full_relay_says_so();
  queries_come_back_from_where_they_went();
  return check_summary();
}
