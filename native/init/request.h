/*
 * A request's payload, parsed once into values that can't be wrong: every field allowed for this request, at most
 * once (arg and env excepted), integers in range, strings without NUL.
 *
 * Strings point into the payload and are terminated in place, over the header of the field behind them. So the
 * payload needs one spare byte, and can be parsed only once.
 */
#ifndef SQUASH_INIT_REQUEST_H
#define SQUASH_INIT_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/frame.h"

struct request {
  bool has[FIELD_TAG_MAX + 1];
  struct field fields[FIELD_TAG_MAX + 1];
  size_t argument_count;
  size_t environment_count;
  char *arguments[FRAME_FIELDS_MAX + 1]; /* ends with NULL */
  char *environment[FRAME_FIELDS_MAX + 1];
};

/* There is one request at a time: a loop turn parses it and acts on it. */
extern struct request request;

/* What a payload may carry: a list of tags that ends with 0. `payload` has a spare byte behind `length`.
 * Returns NULL or a sentence saying what is wrong. */
const char *request_parse(const uint8_t *allowed, uint8_t *payload, size_t length);

/* The integer in `min` … `max`, or `missing` where the field is not there. False where it is out of range. */
bool request_integer(enum field_tag tag, uint64_t min, uint64_t max, uint64_t *value);
static inline const char *request_text(enum field_tag tag) {
  return request.has[tag] ? (const char *)request.fields[tag].bytes : NULL;
}
/* An absolute path below PATH_MAX, or NULL. */
const char *request_path(enum field_tag tag);

struct exec_request {
  const uint8_t *id;
  size_t id_length;
  char *const *arguments;
  char *const *environment;
  const char *cwd;
  uid_t uid;
  gid_t gid;
  bool tty;
  bool has_jobs; /* on its terminal */
  uint16_t rows;
  uint16_t columns;
  bool stdin_pipe;
  int64_t timeout_ms; /* 0: none */
  uint64_t open_files_max;
};

const char *exec_request_parse(uint8_t *payload, size_t length, struct exec_request *out);

struct attach_request {
  const uint8_t *id;
  size_t id_length;
  uint64_t offsets[2]; /* stdout, stderr */
};

const char *attach_request_parse(uint8_t *payload, size_t length, struct attach_request *out);

#endif
