/* Parses requests: see request.h. One row of the table per verb says which fields it must and may carry. */
#include "launch/request.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/device_tree.h"
#include "common/file.h"

typedef unsigned __int128 tag_set;
#define TAG(name) ((tag_set)1 << FIELD_##name)
_Static_assert(FIELD_PROTOCOL < 128, "a field's tag has to fit the set");

struct verb {
  uint8_t type;
  tag_set required;
  tag_set optional;
};

static const struct verb verbs[] = {
    {FRAME_SANDBOX_START,
     TAG(NAME) | TAG(INSTANCE) | TAG(HOSTNAME) | TAG(UPPER) | TAG(UPPER_KIND) | TAG(MEMORY_BYTES_MAX) |
         TAG(CPU_MILLI) | TAG(PIDS_MAX) | TAG(SHM_BYTES_MAX) | TAG(OPEN_FILES_MAX) | TAG(BYTES_MAX) | TAG(INODES_MAX),
     TAG(LOWER) | TAG(UID) | TAG(GID) | TAG(HOSTS) | TAG(RESOLV_CONF) | TAG(MAKES_UPPER) | TAG(MOUNT) | TAG(TRACES_PATHS) |
         TAG(ALLOWS_NESTING) | TAG(VMM) | TAG(VMM_DEVICE)},
    {FRAME_SANDBOX_STOP, TAG(NAME), TAG(FOR_GOOD)},
    {FRAME_SANDBOX_LIST, 0, 0},
    {FRAME_SANDBOX_WATCH, 0, 0},
    {FRAME_SANDBOX_FREEZE, TAG(NAME), 0},
    {FRAME_SANDBOX_THAW, TAG(NAME), 0},
    {FRAME_SANDBOX_STATS, TAG(NAME), 0},
    {FRAME_SANDBOX_LIMIT, TAG(NAME) | TAG(MEMORY_BYTES_MAX) | TAG(CPU_MILLI) | TAG(PIDS_MAX), 0},
    {FRAME_UPPER_CREATE, TAG(UPPER) | TAG(UPPER_KIND) | TAG(BYTES_MAX) | TAG(INODES_MAX), TAG(RESERVED)},
    {FRAME_UPPER_USAGE, TAG(UPPER) | TAG(UPPER_KIND), 0},
    {FRAME_TREE_REMOVE, TAG(PATH), 0},
    {FRAME_IMAGE_PACK, TAG(NAME) | TAG(UPPER) | TAG(UPPER_KIND) | TAG(PATH) | TAG(BYTES_MAX), TAG(KNOWN) | TAG(INDEX)},
    {FRAME_IMAGE_UNPACK, TAG(PATH) | TAG(TARGET) | TAG(BYTES_MAX) | TAG(INODES_MAX), 0},
    {FRAME_IMAGE_MERGE, TAG(LOWER) | TAG(PATH) | TAG(BYTES_MAX), 0},
    {FRAME_IMAGE_PACK_TAR, TAG(PATH) | TAG(TARGET) | TAG(BYTES_MAX), 0},
    {FRAME_TREE_TAR, TAG(PATH), 0},
    {FRAME_TREE_DIFF, TAG(INODES_MAX), TAG(LOWER) | TAG(AGAINST) | TAG(MOUNT) | TAG(UPPER) | TAG(UPPER_KIND) | TAG(AFTER)},
    {FRAME_TREE_APPLY, TAG(UPPER) | TAG(UPPER_KIND) | TAG(MOUNT) | TAG(PATH) | TAG(CHANGED_US), TAG(OUTSIDE) | TAG(HELD)},
    {FRAME_TREE_FILE, TAG(UPPER) | TAG(UPPER_KIND) | TAG(MOUNT) | TAG(PATH), 0},
    {FRAME_HOST_PROBE, 0, 0},
    {FRAME_EGRESS_ATTACH, 0, 0},
    {FRAME_GROUP_JOIN, TAG(NAME) | TAG(PID) | TAG(MEMORY_BYTES_MAX), 0},
    {FRAME_HELPER_ATTACH, 0, 0},
    {FRAME_MOUNT_ATTACH, TAG(NAME) | TAG(MOUNT), 0},
    {FRAME_MOUNT_DETACH, TAG(NAME) | TAG(MOUNT), 0},
    {FRAME_VOLUME_COPY, TAG(MOUNT) | TAG(BYTES_MAX), 0},
    {FRAME_SHUTDOWN, 0, 0},
};

static int malformed(struct fault *fault, const char *what) {
  errno = 0;
  return fault_set(fault, "invalid_request", "%s", what);
}

static bool is_name(const char *text) {
  size_t length = strlen(text);
  if (length == 0 || length > SANDBOX_NAME_BYTES_MAX) return false;
  return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == length;
}

static const char *const kind_names[] = {"directory", "project", "image", "tmpfs"};

const char *upper_kind_name(enum upper_kind kind) { return kind_names[kind]; }

static bool is_kind(const char *text, enum upper_kind *kind) {
  for (unsigned i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
    if (strcmp(text, kind_names[i]) != 0) continue;
    *kind = (enum upper_kind)i;
    return true;
  }
  return false;
}

static bool keep_device(struct request *request, const char *text) {
  for (unsigned i = 0; i < VMM_DEVICES; i++) {
    if (strcmp(text, vmm_device_nodes[i].name) != 0) continue;
    request->vmm_devices |= 1U << i;
    return true;
  }
  return false;
}

static bool keep_path(const char **slot, const char *text) {
  *slot = text;
  return path_is_relative(text);
}

static const char *const place_names[] = {"", "bind", "overlay", "private", "whiteout", "deny", "file", "link", "socket", "device"};

static enum place_kind place_of(const char *text) {
  for (unsigned i = PLACE_BIND; i <= PLACE_DEVICE; i++) {
    if (strcmp(text, place_names[i]) == 0) return (enum place_kind)i;
  }
  return PLACE_NONE;
}

/* Only a link may lead nowhere but to the root, what is not the host's has no source, and a device keeps its name. */
static bool is_source(const struct mount_wish *wish) {
  if (wish->place == PLACE_DEVICE && (strncmp(wish->source, DEVICES, sizeof DEVICES - 1) != 0 || strcmp(wish->source, wish->target) != 0)) return false;
  bool has_none = wish->place == PLACE_PRIVATE || wish->place == PLACE_WHITEOUT || wish->place == PLACE_DENY;
  return has_none ? wish->source[0] == '\0' : path_is_relative(wish->source);
}

/* Ends the line that `text` begins with. Returns the one behind it, NULL behind the last. */
static char *cut_line(char *text) {
  char *end = strchr(text, '\n');
  if (end == NULL) return NULL;
  *end = '\0';
  return end + 1;
}

static bool keep_hidden(struct mount_wish *wish, char *text) {
  wish->hidden = text;
  for (; text != NULL; wish->hidden_count++) {
    char *rest = cut_line(text);
    if (!wish->is_host || wish->hidden_count == HIDDEN_MAX || !path_is_relative(text)) return false;
    text = rest;
  }
  return true;
}

/* Of a place in a root of layers, one line. */
static bool keep_own(struct mount_wish *wish, const char *text) {
  wish->own = text;
  return text == NULL || (strchr(text, '\n') == NULL && path_is_relative(text));
}

/* Cuts `text` at its lines: those of each mount, then the names that are hidden in it, or where its own part lies. */
static bool keep_mount(struct request *request, char *text) {
  enum { MODE, KIND, IDENTITY, SOURCE, TARGET, LINES };
  const char *lines[LINES];
  if (request->mount_count == MOUNTS_MAX) return false;
  for (unsigned i = 0; i < LINES; i++) {
    if (text == NULL) return false;
    lines[i] = text;
    text = cut_line(text);
  }
  struct mount_wish wish = {.place = place_of(lines[KIND]),
                            .is_writable = strcmp(lines[MODE], "rw") == 0,
                            .is_host = strcmp(lines[KIND], "host") == 0,
                            .identity = lines[IDENTITY],
                            .source = lines[SOURCE] + 1,
                            .target = lines[TARGET] + 1};
  bool is_fine = (wish.is_writable || strcmp(lines[MODE], "ro") == 0) && lines[TARGET][0] == '/' && lines[SOURCE][0] == '/' &&
                 is_source(&wish) && path_is_relative(wish.target) &&
                 (wish.place == PLACE_NONE ? keep_hidden(&wish, text) : keep_own(&wish, text)) &&
                 (wish.is_host || wish.place != PLACE_NONE || is_kind(lines[KIND], &wish.kind));
  request->mounts[request->mount_count++] = wish;
  return is_fine;
}

static bool keep_text(struct request *request, unsigned tag, char *text) {
  switch (tag) {
    case FIELD_NAME: request->name = text; return is_name(text);
    case FIELD_HOSTNAME: request->hostname = text; return is_name(text);
    case FIELD_LOWER:
      if (request->lower_count == LOWERS_MAX) return false;
      return keep_path(&request->lowers[request->lower_count++], text);
    case FIELD_AGAINST:
      if (request->against_count == LOWERS_MAX) return false;
      return keep_path(&request->against[request->against_count++], text);
    case FIELD_AFTER: request->after = text; return strlen(text) < PATH_MAX;
    case FIELD_UPPER: return keep_path(&request->upper, text);
    case FIELD_UPPER_KIND: return is_kind(text, &request->upper_kind);
    case FIELD_MOUNT: return keep_mount(request, text);
    case FIELD_PATH:
      if (request->path_count == PATHS_MAX) return false;
      request->paths[request->path_count++] = text;
      return keep_path(&request->path, text);
    case FIELD_TARGET: return keep_path(&request->target, text);
    case FIELD_KNOWN: return keep_path(&request->known, text);
    case FIELD_INDEX: return keep_path(&request->index, text);
    case FIELD_VMM_DEVICE: return keep_device(request, text);
    case FIELD_HOSTS: request->hosts = text; return strlen(text) <= ETC_FILE_BYTES_MAX;
    case FIELD_RESOLV_CONF: request->resolv_conf = text; return strlen(text) <= ETC_FILE_BYTES_MAX;
    default: return false;
  }
}

static bool keep_number(struct request *request, unsigned tag, uint64_t number) {
  switch (tag) {
    case FIELD_INSTANCE: request->instance = number; return number > 0;
    case FIELD_FOR_GOOD: request->is_for_good = number == 1; return number <= 1;
    case FIELD_MAKES_UPPER: request->makes_upper = number == 1; return number <= 1;
    case FIELD_TRACES_PATHS: request->traces_paths = number == 1; return number <= 1;
    case FIELD_ALLOWS_NESTING: request->allows_nesting = number == 1; return number <= 1;
    case FIELD_VMM: request->is_vmm = number == 1; return number <= 1;
    case FIELD_RESERVED: request->is_reserved = number == 1; return number <= 1;
    case FIELD_BYTES_MAX: request->bytes_max = number; return true;
    case FIELD_INODES_MAX: request->inodes_max = number; return true;
    case FIELD_MEMORY_BYTES_MAX: request->memory_bytes_max = number; return true;
    case FIELD_CPU_MILLI: request->cpu_milli = number; return number <= 1024U * 1000;
    case FIELD_PIDS_MAX: request->pids_max = number; return number <= 4194304;
    case FIELD_SHM_BYTES_MAX: request->shm_bytes_max = number; return true;
    case FIELD_CHANGED_US: request->changed_us = number; return true;
    case FIELD_OUTSIDE: request->takes_outside = number == 1; return number <= 1;
    case FIELD_HELD: request->takes_held = number == 1; return number <= 1;
    case FIELD_UID: request->user = (unsigned)number; return number < UINT32_MAX;
    case FIELD_GID: request->group = (unsigned)number; return number < UINT32_MAX;
    case FIELD_PID: request->pid = number; return number > 1 && number <= 4194304;
    case FIELD_OPEN_FILES_MAX: request->open_files_max = number; return number <= 1048576;
    default: return false;
  }
}

static const struct verb *verb_of(uint8_t type) {
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
    if (verbs[i].type == type) return &verbs[i];
  }
  return NULL;
}

/* Layers, or a user of the host and places of its files. */
static int check_root(struct request *request, tag_set seen, struct fault *fault) {
  request->is_box = (seen & TAG(UID)) != 0;
  if (request->is_box != ((seen & TAG(GID)) != 0)) return malformed(fault, "uid and gid come together");
  if (request->is_box == (request->lower_count > 0)) return malformed(fault, "layers, or uid and gid");
  if (request->is_box && request->is_vmm) return malformed(fault, "the root of a VMM is made of layers");
  if (request->vmm_devices != 0 && !request->is_vmm) return malformed(fault, "devices of the host are a VMM's");
  if (request->traces_paths && !request->is_box) return malformed(fault, "paths are traced where the root is the host's");
  if (request->allows_nesting && !request->is_box) return malformed(fault, "namespaces are made inside where the root is the host's");
  /* The tracer looks paths up in its own namespaces, and its listener is PID 1's, who can't enter others. */
  if (request->allows_nesting && request->traces_paths) return malformed(fault, "paths are not traced where namespaces are made inside");
  return 0;
}

/*
 * Places are of a box's start, and of one box's changes at one of them; a VMM's start has files to read. In a root of layers they are
 * what is open of a directory of the host.
 */
static bool may_have_place(const struct request *request, const struct mount_wish *wish) {
  if (request->type == FRAME_TREE_DIFF || request->type == FRAME_TREE_APPLY || request->type == FRAME_TREE_FILE) return true;
  if (request->is_box) return wish->own == NULL;
  if (request->type != FRAME_SANDBOX_START) return false;
  if (wish->own == NULL) return request->is_vmm && wish->place == PLACE_FILE && !wish->is_writable;
  return wish->place != PLACE_LINK && wish->place != PLACE_SOCKET && wish->place != PLACE_DEVICE &&
         (wish->place != PLACE_FILE || !wish->is_writable);
}

/* Two stacks of layers, or an upper and the place of the host that it lies on. */
static int check_sides(const struct request *request, struct fault *fault) {
  bool is_box = request->mount_count == 1 && request->mounts[0].place == PLACE_OVERLAY && request->upper != NULL;
  bool has_layers = request->lower_count > 0 && request->against_count > 0;
  bool has_neither = request->lower_count == 0 && request->against_count == 0;
  if (is_box ? has_neither : has_layers && request->mount_count == 0) return 0;
  return malformed(fault, "layers on both sides, or a place of the host");
}

int request_parse(struct request *request, uint8_t type, uint8_t *payload, size_t length, struct fault *fault) {
  *request = (struct request){.type = type, .hosts = "", .resolv_conf = "", .after = ""};
  const struct verb *verb = verb_of(type);
  if (verb == NULL) return malformed(fault, "not a request to the launcher");
  /* A field's header has room for the 0 behind its text, so the payload's length is enough. */
  request->arena = malloc(length + 1);
  if (request->arena == NULL) return fault_set(fault, "launch_failed", "no memory for a request");
  char *free_text = request->arena;
  struct field_reader reader;
  struct field field;
  tag_set seen = 0;
  field_reader_start(&reader, payload, length);
  while (field_next(&reader, &field)) {
    tag_set bit = field.tag < 128 ? (tag_set)1 << field.tag : 0;
    if ((bit & (verb->required | verb->optional)) == 0) return malformed(fault, "a field that the verb does not take");
    bool may_repeat = field.tag == FIELD_LOWER || field.tag == FIELD_AGAINST || field.tag == FIELD_MOUNT ||
                      field.tag == FIELD_VMM_DEVICE || (field.tag == FIELD_PATH && type == FRAME_TREE_APPLY);
    if ((seen & bit) != 0 && !may_repeat) return malformed(fault, "a field is repeated");
    seen |= bit;
    if (field_tag_is_integer(field.tag)) {
      if (!keep_number(request, field.tag, field.number)) return malformed(fault, "a number out of range");
      continue;
    }
    if (memchr(field.bytes, 0, field.length) != NULL) return malformed(fault, "a zero byte in a text");
    char *text = free_text;
    memcpy(text, field.bytes, field.length);
    text[field.length] = '\0';
    free_text += field.length + 1;
    if (!keep_text(request, field.tag, text)) return malformed(fault, "a malformed name, kind or path");
  }
  if (reader.fault != FRAME_FINE) return malformed(fault, "malformed fields");
  if ((seen & verb->required) != verb->required) return malformed(fault, "a required field is missing");
  if (type == FRAME_TREE_DIFF && check_sides(request, fault) != 0) return -1;
  if (type == FRAME_SANDBOX_START && check_root(request, seen, fault) != 0) return -1;
  for (size_t i = 0; i < request->mount_count; i++) {
    bool is_place = request->mounts[i].place != PLACE_NONE;
    if (is_place && !may_have_place(request, &request->mounts[i])) return malformed(fault, "a place of a root that is not the host's");
    if (!is_place && (type == FRAME_TREE_APPLY || type == FRAME_TREE_FILE)) return malformed(fault, "changes are of a place");
  }
  return 0;
}

void request_free(struct request *request) {
  free(request->arena);
  request->arena = NULL;
}
