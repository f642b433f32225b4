/* squash-vmm's requests: what is accepted, and a sentence for everything that is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "vmm/request.h"

static uint8_t buffer[FRAME_PAYLOAD_BYTES_MAX];
static struct frame_writer writer;
static struct start_request start;

static void begin(void) {
  writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_VMM_START);
}

static void sockets(void) {
  begin();
  frame_text(&writer, FIELD_SOCKET, "/run/v.sock");
  frame_text(&writer, FIELD_CONTROL, "/run/q.sock");
}

static void command(const char *text) { frame_text(&writer, FIELD_COMMAND, text); }

/* The payload on the heap, so that ASan sees a step too far. */
static const char *parse(void) {
  size_t length = frame_finish(&writer) - FRAME_HEADER_BYTES;
  uint8_t *copy = malloc(length + 1);
  memcpy(copy, buffer + FRAME_HEADER_BYTES, length);
  const char *wrong = start_request_parse(copy, length, &start);
  free(copy);
  return wrong;
}

static bool refuses_command(const char *text) {
  sockets();
  command(text);
  return parse() != NULL;
}

static void check_accepted(void) {
  sockets();
  command("once\n/usr/sbin/mke2fs\n\n-q");
  command("stay /run/vh.sock\nvhost-device-vsock");
  command("stay\nqemu\n-append\na b=c");
  command("files /run/files.sock\nvirtiofsd");
  command("unpack /disk\n/drives/disk");
  command("memory\n/drives/memory");
  command("behind /dev/shm/state\n/drives/memory\n268435456");
  CHECK(parse() == NULL);
  CHECK(strcmp(start.socket, "/run/v.sock") == 0 && strcmp(start.control, "/run/q.sock") == 0 && start.command_count == 7);
  const struct command *first = &start.commands[0];
  CHECK(!first->stays && first->awaits == NULL && strcmp(first->words[0], "/usr/sbin/mke2fs") == 0);
  CHECK(strcmp(first->words[1], "") == 0 && strcmp(first->words[2], "-q") == 0 && first->words[3] == NULL);
  CHECK(start.commands[1].stays && strcmp(start.commands[1].awaits, "/run/vh.sock") == 0);
  CHECK(start.commands[3].stays && start.commands[3].serves_files && strcmp(start.commands[3].awaits, "/run/files.sock") == 0);
  CHECK(!start.commands[1].serves_files && !start.commands[1].unpacks);
  CHECK(start.commands[4].unpacks && strcmp(start.commands[4].makes, "/disk") == 0);
  CHECK(strcmp(start.commands[4].words[0], "/drives/disk") == 0);
  CHECK(start.commands[5].remembers && !start.commands[5].stays && start.commands[5].makes == NULL && !start.commands[4].remembers);
  CHECK(start.commands[2].stays && start.commands[2].awaits == NULL && strcmp(start.commands[2].words[2], "a b=c") == 0);
}

static void check_refused(void) {
  static const char *const commands[] = {"",          "once",          "once\n",     "stay\n\nword", "stayed\n/bin/true", "stay run\n/bin/true",
                                         "stay \n/a", "once /run/x\n/a", "never\n/a", "ONCE\n/a", "files\n/a", "files run\n/a"};
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) CHECK(refuses_command(commands[i]));
  CHECK(!refuses_command("once\n/bin/true"));
  sockets();
  frame_bytes(&writer, FIELD_COMMAND, "once\n/a\0b", 9);
  CHECK(parse() != NULL);
  sockets();
  CHECK(parse() != NULL);
  sockets();
  frame_text(&writer, FIELD_SOCKET, "/run/v.sock");
  command("once\n/a");
  CHECK(parse() != NULL);
  sockets();
  frame_integer(&writer, FIELD_PORT, 1);
  command("once\n/a");
  CHECK(parse() != NULL);
  begin();
  frame_text(&writer, FIELD_SOCKET, "run/v.sock");
  frame_text(&writer, FIELD_CONTROL, "/run/q.sock");
  command("once\n/a");
  CHECK(parse() != NULL);
}

static void check_limits(void) {
  static char text[VMM_COMMANDS_BYTES_MAX + 4096];
  for (unsigned words = VMM_WORDS_MAX; words <= VMM_WORDS_MAX + 1; words++) {
    size_t used = (size_t)snprintf(text, sizeof text, "once");
    for (unsigned i = 0; i < words; i++) used += (size_t)snprintf(text + used, sizeof text - used, "\nw");
    CHECK(refuses_command(text) == (words > VMM_WORDS_MAX));
  }
  for (unsigned count = VMM_COMMANDS_MAX; count <= VMM_COMMANDS_MAX + 1; count++) {
    sockets();
    for (unsigned i = 0; i < count; i++) command("stay\n/a");
    CHECK((parse() != NULL) == (count > VMM_COMMANDS_MAX));
  }
  for (size_t length = 100; length <= 101; length++) {
    begin();
    memset(text, 's', length);
    text[0] = '/';
    frame_bytes(&writer, FIELD_SOCKET, text, length);
    frame_text(&writer, FIELD_CONTROL, "/run/q.sock");
    command("once\n/a");
    CHECK((parse() != NULL) == (length > 100));
  }
  memset(text, 'w', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  memcpy(text, "once\n", 5);
  CHECK(refuses_command(text));
  text[VMM_COMMANDS_BYTES_MAX - 1] = '\0';
  CHECK(!refuses_command(text));
}

static const char *parse_guest(uint16_t *port) {
  size_t length = frame_finish(&writer) - FRAME_HEADER_BYTES;
  return guest_request_parse(buffer + FRAME_HEADER_BYTES, length, port);
}

static void check_guest(void) {
  static const uint64_t wrong[] = {0, 65536, INTEGER_MAX};
  uint16_t port;
  begin();
  CHECK(parse_guest(&port) == NULL && port == VMM_GUEST_PORT);
  begin();
  frame_integer(&writer, FIELD_PORT, 65535);
  CHECK(parse_guest(&port) == NULL && port == 65535);
  frame_integer(&writer, FIELD_PORT, 1);
  CHECK(parse_guest(&port) != NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    begin();
    frame_integer(&writer, FIELD_PORT, wrong[i]);
    CHECK(parse_guest(&port) != NULL);
  }
  begin();
  frame_text(&writer, FIELD_PATH, "/");
  CHECK(parse_guest(&port) != NULL);
}

int main(void) {
  check_accepted();
  check_refused();
  check_limits();
  check_guest();
  return check_summary();
}
