/* Requests: see request.h. */
#include "init/request.h"

#include <string.h>

struct request request;

static const uint8_t exec_fields[] = {
    FIELD_EXEC_ID, FIELD_ARG,        FIELD_ENV,        FIELD_CWD, FIELD_UID, FIELD_GID, FIELD_TTY, FIELD_ROWS,
    FIELD_COLUMNS, FIELD_STDIN_MODE, FIELD_TIMEOUT_MS, FIELD_OPEN_FILES_MAX, 0};
static const uint8_t attach_fields[] = {FIELD_EXEC_ID, FIELD_STDOUT_OFFSET, FIELD_STDERR_OFFSET, 0};

static bool is_allowed(const uint8_t *allowed, uint16_t tag) {
  for (; *allowed != 0; allowed++) {
    if (*allowed == tag) return true;
  }
  return false;
}

static const char *take_field(const uint8_t *allowed, const struct field *field) {
  if (!is_allowed(allowed, field->tag)) return "a field has no business in this request";
  if (!field_tag_is_integer(field->tag) && memchr(field->bytes, 0, field->length) != NULL) return "a string holds a NUL";
  if (field->tag == FIELD_ARG) {
    request.arguments[request.argument_count++] = (char *)field->bytes;
  } else if (field->tag == FIELD_ENV) {
    request.environment[request.environment_count++] = (char *)field->bytes;
  } else if (request.has[field->tag]) {
    return "a field is repeated";
  }
  request.has[field->tag] = true;
  request.fields[field->tag] = *field;
  return NULL;
}

/* Strings get their end only now: the byte behind one is the tag of the next field. */
static void terminate_strings(uint8_t *payload, size_t length) {
  uint8_t *end = payload + length;
  for (uint8_t *at = payload; at < end;) {
    uint32_t field_length = little_endian_32(at + 2);
    uint8_t *next = at + 6 + field_length;
    /* The tag's low byte is what is overwritten; the walk needs only the length behind it. */
    *next = 0;
    at = next;
  }
  request.arguments[request.argument_count] = NULL;
  request.environment[request.environment_count] = NULL;
}

const char *request_parse(const uint8_t *allowed, uint8_t *payload, size_t length) {
  memset(request.has, 0, sizeof request.has);
  request.argument_count = 0;
  request.environment_count = 0;
  struct field_reader reader;
  field_reader_start(&reader, payload, length);
  for (struct field field; field_next(&reader, &field);) {
    const char *wrong = take_field(allowed, &field);
    if (wrong != NULL) return wrong;
  }
  if (reader.fault != FRAME_FINE) return "the payload is no list of fields";
  terminate_strings(payload, length);
  return NULL;
}

bool request_integer(enum field_tag tag, uint64_t min, uint64_t max, uint64_t *value) {
  if (!request.has[tag]) return true;
  uint64_t number = request.fields[tag].number;
  if (number < min || number > max) return false;
  *value = number;
  return true;
}

const char *request_path(enum field_tag tag) {
  const char *path = request_text(tag);
  bool is_fine = path != NULL && path[0] == '/' && request.fields[tag].length < GUEST_PATH_BYTES_MAX;
  return is_fine ? path : NULL;
}

static bool take_exec_id(const uint8_t **id, size_t *length) {
  if (!request.has[FIELD_EXEC_ID]) return false;
  *id = request.fields[FIELD_EXEC_ID].bytes;
  *length = request.fields[FIELD_EXEC_ID].length;
  return *length > 0 && *length <= GUEST_EXEC_ID_BYTES_MAX;
}

const char *exec_request_parse(uint8_t *payload, size_t length, struct exec_request *out) {
  const char *wrong = request_parse(exec_fields, payload, length);
  if (wrong != NULL) return wrong;
  *out = (struct exec_request){.arguments = request.arguments, .environment = request.environment};
  if (!take_exec_id(&out->id, &out->id_length)) return "the exec id is missing, empty or too long";
  if (request.argument_count == 0) return "there is no argument 0";
  for (size_t i = 0; i < request.environment_count; i++) {
    const char *entry = request.environment[i];
    if (entry[0] == '=' || strchr(entry, '=') == NULL) return "an environment entry is not NAME=VALUE";
  }
  out->cwd = request_path(FIELD_CWD);
  if (out->cwd == NULL) return "the working directory is not an absolute path";
  /* The largest id stands for "no change" in setresuid and is nobody's. */
  uint64_t uid = 0, gid = 0, tty = 0, rows = 24, columns = 80, stdin_mode = 0, timeout_ms = 0, open_files_max = 1024;
  if (!request_integer(FIELD_UID, 0, UINT32_MAX - 1, &uid)) return "the uid is out of range";
  if (!request_integer(FIELD_GID, 0, UINT32_MAX - 1, &gid)) return "the gid is out of range";
  if (!request_integer(FIELD_TTY, TTY_MODE_NONE, TTY_MODE_JOBS, &tty)) return "tty is unknown";
  if (!request_integer(FIELD_ROWS, 1, GUEST_TERMINAL_CELLS_MAX, &rows)) return "rows are out of range";
  if (!request_integer(FIELD_COLUMNS, 1, GUEST_TERMINAL_CELLS_MAX, &columns)) return "columns are out of range";
  if (!request_integer(FIELD_STDIN_MODE, STDIN_MODE_NONE, STDIN_MODE_PIPE, &stdin_mode)) return "stdinMode is unknown";
  if (!request_integer(FIELD_TIMEOUT_MS, 1, GUEST_TIMEOUT_MS_MAX, &timeout_ms)) return "the timeout is out of range";
  if (!request_integer(FIELD_OPEN_FILES_MAX, 3, GUEST_OPEN_FILES_MAX, &open_files_max)) {
    return "openFilesMax is out of range";
  }
  out->uid = (uid_t)uid;
  out->gid = (gid_t)gid;
  out->tty = tty != TTY_MODE_NONE;
  out->has_jobs = tty == TTY_MODE_JOBS;
  out->rows = (uint16_t)rows;
  out->columns = (uint16_t)columns;
  out->stdin_pipe = stdin_mode == STDIN_MODE_PIPE;
  out->timeout_ms = (int64_t)timeout_ms;
  out->open_files_max = open_files_max;
  return NULL;
}

const char *attach_request_parse(uint8_t *payload, size_t length, struct attach_request *out) {
  const char *wrong = request_parse(attach_fields, payload, length);
  if (wrong != NULL) return wrong;
  *out = (struct attach_request){.offsets = {0, 0}};
  if (!take_exec_id(&out->id, &out->id_length)) return "the exec id is missing, empty or too long";
  (void)request_integer(FIELD_STDOUT_OFFSET, 0, INTEGER_MAX, &out->offsets[0]); /* Every integer is in range. */
  (void)request_integer(FIELD_STDERR_OFFSET, 0, INTEGER_MAX, &out->offsets[1]);
  return NULL;
}
