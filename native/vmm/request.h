/*
 * Requests' payloads, parsed once into values that can't be wrong: only fields that the request takes, none repeated but `command`,
 * no NUL in a text.
 */
#ifndef SQUASH_VMM_REQUEST_H
#define SQUASH_VMM_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"

struct command {
  bool stays;
  bool serves_files;  /* for the guest, as root of the sandbox: it keeps the sandbox's capabilities */
  bool unpacks;       /* no program: what it makes is made of the disk's stream that its one word names */
  bool remembers;     /* no program: the guest's memory is filled from the stream that its one word names */
  bool cuts;          /* the same, of what lies in the file of its first word behind as many bytes as the second says */
  const char *makes;  /* what it makes, with `.new` behind its name; where that is there already it does not run. Or NULL */
  const char *awaits; /* a socket that somebody has to listen at before the next one begins, or NULL */
  char **words;       /* ends with NULL */
};

struct start_request {
  const char *socket;
  const char *control;
  struct command commands[VMM_COMMANDS_MAX];
  unsigned command_count;
};

/* Both return NULL or a sentence saying what is wrong. Of a start there is one in the life of the process: what it says is kept. */
const char *start_request_parse(uint8_t *payload, size_t length, struct start_request *out);
const char *guest_request_parse(uint8_t *payload, size_t length, uint16_t *port);

#endif
