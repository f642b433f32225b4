/* The table of sandboxes: see sandbox.h. Their starts are in sandbox_start.c, their ends in sandbox_end.c. */
#include "launch/sandbox.h"

#include <string.h>

#include "common/frame.h"
#include "launch/connection.h"

struct sandbox *sandbox_by_name(struct launcher *launcher, const char *name) {
  struct sandbox *sandbox = launcher->sandboxes;
  while (sandbox != NULL && strcmp(sandbox->name, name) != 0) sandbox = sandbox->next;
  return sandbox;
}

struct sandbox *sandbox_by_instance(struct launcher *launcher, uint64_t instance) {
  struct sandbox *sandbox = launcher->sandboxes;
  while (sandbox != NULL && sandbox->instance != instance) sandbox = sandbox->next;
  return sandbox;
}

void sandbox_announce(struct launcher *launcher, const struct sandbox *sandbox, const char *change) {
  uint8_t buffer[256];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_EVENT);
  frame_text(&writer, FIELD_NAME, sandbox->name);
  frame_integer(&writer, FIELD_INSTANCE, sandbox->instance);
  frame_text(&writer, FIELD_CHANGE, change);
  if (sandbox->is_vmm) frame_integer(&writer, FIELD_VMM, 1);
  for (struct connection *at = launcher->connections; at != NULL; at = at->next) {
    if (at->is_watching) connection_send(at, &writer);
  }
}
