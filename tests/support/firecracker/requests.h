/*
 * What Firecracker's API takes, of the endpoints that a machine is booted, paused, saved and loaded with: fields with their types, ranges and choices, and when each may
 * come (reference: its swagger file, and the order rules of its code). Everything else is refused, as the real one does.
 */
#ifndef REQUESTS_H
#define REQUESTS_H
#include <stdbool.h>

#include "json.h"

enum endpoint { MACHINE_CONFIG, BOOT_SOURCE, DRIVE, NETWORK_INTERFACE, VSOCK, ENTROPY, BALLOON, ACTIONS, VM, SNAPSHOT_CREATE, SNAPSHOT_LOAD, ENDPOINTS };

struct asked {
  enum endpoint endpoint;
  struct json_object body;
};

/* Returns NULL, or the fault. */
const char *request_judge(const char *method, const char *path, const char *body, struct asked *asked);

const char *text_in(const struct asked *asked, const char *name, const char *otherwise);
/* False: there is none. */
bool object_in(const struct asked *asked, const char *name, struct asked *inner);
long long number_in(const struct asked *asked, const char *name, long long otherwise);

#endif
