/* PID 1's requests: what is accepted, and a sentence for everything that is not. */
#include <stdlib.h>
#include <string.h>

#include "init/request.h"
#include "tests/check.h"

static uint8_t buffer[FRAME_PAYLOAD_BYTES_MAX];
static struct frame_writer writer;

static void begin(void) {
  writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_EXEC);
}

/* The payload on the heap with its one spare byte, so that ASan sees a step too far. The caller frees. */
static uint8_t *payload(size_t *length) {
  *length = frame_finish(&writer) - FRAME_HEADER_BYTES;
  uint8_t *copy = malloc(*length + 1);
  memcpy(copy, buffer + FRAME_HEADER_BYTES, *length);
  copy[*length] = 0xaa;
  return copy;
}

static void minimal(void) {
  begin();
  frame_text(&writer, FIELD_EXEC_ID, "id");
  frame_text(&writer, FIELD_ARG, "sh");
  frame_text(&writer, FIELD_CWD, "/");
}

static const char *parse_and_drop(void) {
  size_t length;
  uint8_t *bytes = payload(&length);
  struct exec_request spec;
  const char *wrong = exec_request_parse(bytes, length, &spec);
  free(bytes);
  return wrong;
}

static void check_accepted(void) {
  begin();
  frame_text(&writer, FIELD_ARG, "sh");
  frame_text(&writer, FIELD_ARG, "");
  frame_text(&writer, FIELD_ARG, "-c\n\xff");
  frame_text(&writer, FIELD_EXEC_ID, "exec-1");
  frame_integer(&writer, FIELD_UID, UINT32_MAX - 1);
  frame_text(&writer, FIELD_ENV, "A=b=c");
  frame_text(&writer, FIELD_CWD, "/tmp");
  frame_integer(&writer, FIELD_TTY, 1);
  frame_integer(&writer, FIELD_ROWS, 4096);
  frame_integer(&writer, FIELD_TIMEOUT_MS, GUEST_TIMEOUT_MS_MAX);
  frame_text(&writer, FIELD_ENV, "EMPTY=");
  size_t length;
  uint8_t *bytes = payload(&length);
  struct exec_request spec;
  CHECK(exec_request_parse(bytes, length, &spec) == NULL);
  CHECK(strcmp(spec.arguments[0], "sh") == 0 && strcmp(spec.arguments[1], "") == 0);
  CHECK(strcmp(spec.arguments[2], "-c\n\xff") == 0 && spec.arguments[3] == NULL);
  CHECK(strcmp(spec.environment[0], "A=b=c") == 0 && strcmp(spec.environment[1], "EMPTY=") == 0);
  CHECK(spec.environment[2] == NULL && strcmp(spec.cwd, "/tmp") == 0);
  CHECK(spec.id_length == 6 && memcmp(spec.id, "exec-1", 6) == 0);
  CHECK(spec.uid == UINT32_MAX - 1 && spec.gid == 0 && spec.tty && spec.rows == 4096 && spec.columns == 80);
  CHECK(spec.timeout_ms == GUEST_TIMEOUT_MS_MAX && !spec.stdin_pipe);
  free(bytes);
}

static void check_integer_refused(enum field_tag tag, uint64_t value, const char *name) {
  minimal();
  frame_integer(&writer, tag, value);
  CHECK_NAMED(parse_and_drop() != NULL, name);
}

static void check_refused(void) {
  minimal();
  CHECK(parse_and_drop() == NULL);
  check_integer_refused(FIELD_UID, UINT32_MAX, "the uid that means no change");
  check_integer_refused(FIELD_GID, UINT64_C(1) << 32, "a gid of 33 bits");
  check_integer_refused(FIELD_TTY, 3, "tty 3");
  check_integer_refused(FIELD_ROWS, 0, "0 rows");
  check_integer_refused(FIELD_COLUMNS, 4097, "4097 columns");
  check_integer_refused(FIELD_STDIN_MODE, 2, "an unknown stdin mode");
  check_integer_refused(FIELD_TIMEOUT_MS, 0, "a timeout of 0");
  check_integer_refused(FIELD_TIMEOUT_MS, (uint64_t)GUEST_TIMEOUT_MS_MAX + 1, "a timeout that overflows");
  check_integer_refused(FIELD_OPEN_FILES_MAX, 2, "no descriptor beyond the streams");
  check_integer_refused(FIELD_PORT, 1, "a field of another request");
  static const char *const entries[] = {"", "A", "=b", "="};
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    minimal();
    frame_text(&writer, FIELD_ENV, entries[i]);
    CHECK_NAMED(parse_and_drop() != NULL, entries[i]);
  }
  minimal();
  frame_text(&writer, FIELD_CWD, "/twice");
  CHECK(parse_and_drop() != NULL);
  minimal();
  frame_bytes(&writer, FIELD_ARG, "a\0b", 3);
  CHECK(parse_and_drop() != NULL);
  begin();
  CHECK(parse_and_drop() != NULL);
}

static void check_paths(void) {
  static char path[GUEST_PATH_BYTES_MAX + 8];
  memset(path, 'x', sizeof path - 1);
  path[0] = '/';
  static const struct {
    size_t length;
    bool is_fine;
  } cases[] = {{1, true}, {4095, true}, {4096, false}, {0, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    begin();
    frame_bytes(&writer, FIELD_PATH, path, cases[i].length);
    size_t length;
    uint8_t *bytes = payload(&length);
    static const uint8_t allowed[] = {FIELD_PATH, 0};
    CHECK(request_parse(allowed, bytes, length) == NULL);
    CHECK((request_path(FIELD_PATH) != NULL) == cases[i].is_fine);
    CHECK(request_path(FIELD_TARGET) == NULL);
    free(bytes);
  }
}

static void check_attach(void) {
  begin();
  frame_text(&writer, FIELD_EXEC_ID, "x");
  frame_integer(&writer, FIELD_STDERR_OFFSET, INTEGER_MAX);
  size_t length;
  uint8_t *bytes = payload(&length);
  struct attach_request wanted;
  CHECK(attach_request_parse(bytes, length, &wanted) == NULL);
  CHECK(wanted.offsets[0] == 0 && wanted.offsets[1] == INTEGER_MAX);
  free(bytes);
  begin();
  static const char long_id[GUEST_EXEC_ID_BYTES_MAX + 1] = {[0 ... GUEST_EXEC_ID_BYTES_MAX] = 'i'};
  frame_bytes(&writer, FIELD_EXEC_ID, long_id, sizeof long_id);
  bytes = payload(&length);
  CHECK(attach_request_parse(bytes, length, &wanted) != NULL);
  free(bytes);
}

int main(void) {
  check_accepted();
  check_refused();
  check_paths();
  check_attach();
  return check_summary();
}
