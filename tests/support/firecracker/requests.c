/* See requests.h. */
#include "requests.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

struct field {
  const char *name;
  enum json_kind kind;
  enum { OPTIONAL, REQUIRED, DEFAULTED } presence; /* Only one that is optional may be null. */
  long long min, max;  /* of a number */
  const char *choices; /* of a text: ` one two `; NULL: any */
};

static const struct field machine_config[] = {{"vcpu_count", JSON_NUMBER, REQUIRED, 1, 32, NULL},
                                              {"mem_size_mib", JSON_NUMBER, REQUIRED, 1, INT_MAX, NULL},
                                              {"smt", JSON_FLAG, OPTIONAL, 0, 1, NULL},
                                              {"track_dirty_pages", JSON_FLAG, OPTIONAL, 0, 1, NULL},
                                              {"huge_pages", JSON_TEXT, OPTIONAL, 0, 0, " None 2M "},
                                              {NULL}};
static const struct field boot_source[] = {{"kernel_image_path", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                           {"boot_args", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                           {"initrd_path", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                           {NULL}};
static const struct field drive[] = {{"drive_id", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                     {"is_root_device", JSON_FLAG, REQUIRED, 0, 1, NULL},
                                     {"path_on_host", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                     {"is_read_only", JSON_FLAG, OPTIONAL, 0, 1, NULL},
                                     {"cache_type", JSON_TEXT, OPTIONAL, 0, 0, " Unsafe Writeback "},
                                     {"io_engine", JSON_TEXT, OPTIONAL, 0, 0, " Sync Async "},
                                     {"partuuid", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                     {"rate_limiter", JSON_OBJECT, OPTIONAL, 0, 0, NULL},
                                     {"socket", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                     {NULL}};
static const struct field network_interface[] = {{"iface_id", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                                 {"host_dev_name", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                                 {"guest_mac", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                                 {"mtu", JSON_NUMBER, OPTIONAL, 68, 65535, NULL},
                                                 {"rx_rate_limiter", JSON_OBJECT, OPTIONAL, 0, 0, NULL},
                                                 {"tx_rate_limiter", JSON_OBJECT, OPTIONAL, 0, 0, NULL},
                                                 {NULL}};
static const struct field vsock[] = {{"guest_cid", JSON_NUMBER, REQUIRED, 3, UINT32_MAX, NULL},
                                     {"uds_path", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                     {"vsock_id", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                     {NULL}};
static const struct field entropy[] = {{"rate_limiter", JSON_OBJECT, OPTIONAL, 0, 0, NULL}, {NULL}};
static const struct field balloon[] = {{"amount_mib", JSON_NUMBER, REQUIRED, 0, INT_MAX, NULL},
                                       {"deflate_on_oom", JSON_FLAG, REQUIRED, 0, 1, NULL},
                                       {"stats_polling_interval_s", JSON_NUMBER, OPTIONAL, 0, UINT16_MAX, NULL},
                                       {"free_page_hinting", JSON_FLAG, OPTIONAL, 0, 1, NULL},
                                       {"free_page_reporting", JSON_FLAG, OPTIONAL, 0, 1, NULL},
                                       {NULL}};
static const struct field actions[] = {
    {"action_type", JSON_TEXT, REQUIRED, 0, 0, " InstanceStart FlushMetrics SendCtrlAltDel "}, {NULL}};
static const struct field vm[] = {{"state", JSON_TEXT, REQUIRED, 0, 0, " Paused Resumed "}, {NULL}};
static const struct field snapshot_create[] = {{"snapshot_path", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                               {"mem_file_path", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                               {"snapshot_type", JSON_TEXT, DEFAULTED, 0, 0, " Full Diff "},
                                               {NULL}};
static const struct field mem_backend[] = {{"backend_type", JSON_TEXT, REQUIRED, 0, 0, " File Uffd "}, {"backend_path", JSON_TEXT, REQUIRED, 0, 0, NULL}, {NULL}};
static const struct field snapshot_load[] = {{"snapshot_path", JSON_TEXT, REQUIRED, 0, 0, NULL},
                                             {"mem_backend", JSON_OBJECT, OPTIONAL, 0, 0, NULL},
                                             {"mem_file_path", JSON_TEXT, OPTIONAL, 0, 0, NULL},
                                             {"resume_vm", JSON_FLAG, DEFAULTED, 0, 1, NULL},
                                             {"track_dirty_pages", JSON_FLAG, DEFAULTED, 0, 1, NULL},
                                             {"enable_diff_snapshots", JSON_FLAG, DEFAULTED, 0, 1, NULL},
                                             {"clock_realtime", JSON_FLAG, DEFAULTED, 0, 1, NULL},
                                             {"network_overrides", JSON_LIST, DEFAULTED, 0, 0, NULL},
                                             {"vsock_override", JSON_OBJECT, OPTIONAL, 0, 0, NULL},
                                             {NULL}};

/* With an id in the path where the body has one of that name. */
static const struct {
  const char *method;
  const char *path;
  const char *id;
  const struct field *fields;
} endpoints[ENDPOINTS] = {[MACHINE_CONFIG] = {"PUT", "/machine-config", NULL, machine_config},
                          [BOOT_SOURCE] = {"PUT", "/boot-source", NULL, boot_source},
                          [DRIVE] = {"PUT", "/drives/", "drive_id", drive},
                          [NETWORK_INTERFACE] = {"PUT", "/network-interfaces/", "iface_id", network_interface},
                          [VSOCK] = {"PUT", "/vsock", NULL, vsock},
                          [ENTROPY] = {"PUT", "/entropy", NULL, entropy},
                          [BALLOON] = {"PUT", "/balloon", NULL, balloon},
                          [ACTIONS] = {"PUT", "/actions", NULL, actions},
                          [VM] = {"PATCH", "/vm", NULL, vm},
                          [SNAPSHOT_CREATE] = {"PUT", "/snapshot/create", NULL, snapshot_create},
                          [SNAPSHOT_LOAD] = {"PUT", "/snapshot/load", NULL, snapshot_load}};

static const struct json_member *member_of(const struct asked *asked, const char *name) {
  for (size_t i = 0; i < asked->body.count; i++) {
    if (strcmp(asked->body.members[i].name, name) == 0) return &asked->body.members[i];
  }
  return NULL;
}

const char *text_in(const struct asked *asked, const char *name, const char *otherwise) {
  const struct json_member *member = member_of(asked, name);
  return member == NULL || member->kind != JSON_TEXT ? otherwise : member->text;
}

long long number_in(const struct asked *asked, const char *name, long long otherwise) {
  const struct json_member *member = member_of(asked, name);
  return member == NULL || member->kind == JSON_NULL ? otherwise : member->number;
}

bool object_in(const struct asked *asked, const char *name, struct asked *inner) {
  const struct json_member *member = member_of(asked, name);
  return member != NULL && member->kind == JSON_OBJECT && json_parse(member->text, &inner->body) == NULL;
}

static const char *judge_member(const struct field *field, const struct json_member *member) {
  static const char *const kinds[] = {"a string", "a number", "a boolean", "a map", "a sequence", "null"};
  if (member->kind == JSON_NULL && field->presence == OPTIONAL) return NULL;
  if (member->kind != field->kind) return fault_of("`%s`: invalid type: %s, expected %s", field->name, kinds[member->kind], kinds[field->kind]);
  if (field->kind == JSON_NUMBER && (member->number < field->min || member->number > field->max)) {
    return fault_of("`%s`: invalid value: %lld", field->name, member->number);
  }
  char word[80];
  (void)snprintf(word, sizeof word, " %.60s ", member->text);
  if (field->choices != NULL && strstr(field->choices, word) == NULL) return fault_of("`%s`: unknown variant, expected one of%s", field->name, field->choices);
  return NULL;
}

static const char *judge_body(const struct field *fields, struct asked *asked) {
  for (size_t i = 0; i < asked->body.count; i++) {
    const struct field *field = fields;
    while (field->name != NULL && strcmp(field->name, asked->body.members[i].name) != 0) field++;
    if (field->name == NULL) return fault_of("unknown field `%s`", asked->body.members[i].name);
    const char *wrong = judge_member(field, &asked->body.members[i]);
    if (wrong != NULL) return wrong;
  }
  for (const struct field *field = fields; field->name != NULL; field++) {
    if (field->presence == REQUIRED && member_of(asked, field->name) == NULL) return fault_of("missing field `%s`", field->name);
  }
  return NULL;
}

static const char *judge_backend(const struct asked *asked) {
  static struct asked inner;
  return object_in(asked, "mem_backend", &inner) ? judge_body(mem_backend, &inner) : NULL;
}

static const char *judge_load(const struct asked *asked) {
  static struct asked inner;
  const struct json_member *backend = member_of(asked, "mem_backend"), *overrides = member_of(asked, "network_overrides");
  bool has_backend = backend != NULL && backend->kind != JSON_NULL, has_file = text_in(asked, "mem_file_path", NULL) != NULL;
  if (has_backend && has_file) return "too many fields: either `mem_backend` or `mem_file_path` exclusively is required";
  if (!has_backend && !has_file) return "missing field: either `mem_backend` or `mem_file_path` is required";
  if (overrides != NULL && overrides->text[strspn(overrides->text, "[ \t\r\n")] != ']') return "the stand-in has no network overrides";
  /* Fields that nobody knows are no fault of this one. */
  if (object_in(asked, "vsock_override", &inner) && text_in(&inner, "uds_path", NULL) == NULL) return "`vsock_override`: missing field `uds_path`";
  return NULL;
}

static const char *judge_more(const struct asked *asked) {
  long long vcpus = number_in(asked, "vcpu_count", 1);
  if (number_in(asked, "smt", 0) != 0 && vcpus != 1 && vcpus % 2 != 0) return "The vCPU number is invalid! With SMT it must be 1 or even";
  const char *mac = text_in(asked, "guest_mac", NULL);
  unsigned byte[6];
  char end;
  if (mac != NULL && (strlen(mac) != 17 || sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x%c", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5, &end) != 6)) {
    return "`guest_mac`: invalid MAC address";
  }
  bool has_path = text_in(asked, "path_on_host", NULL) != NULL, has_socket = text_in(asked, "socket", NULL) != NULL;
  if (asked->endpoint == DRIVE && has_path == has_socket) return "Invalid drive: either path_on_host or socket";
  return asked->endpoint == SNAPSHOT_LOAD ? judge_load(asked) : NULL;
}

const char *request_judge(const char *method, const char *path, const char *body, struct asked *asked) {
  const char *id = NULL;
  asked->endpoint = 0;
  for (; asked->endpoint < ENDPOINTS; asked->endpoint++) {
    const char *known = endpoints[asked->endpoint].path;
    if (strcmp(method, endpoints[asked->endpoint].method) != 0) continue;
    id = endpoints[asked->endpoint].id == NULL ? NULL : path + strlen(known);
    if (id == NULL ? strcmp(path, known) == 0 : strncmp(path, known, strlen(known)) == 0) break;
  }
  if (asked->endpoint == ENDPOINTS) return fault_of("Invalid request method and/or path: %s %.80s", method, path);
  if (id != NULL && (id[0] == '\0' || strspn(id, ID_CHARACTERS) != strlen(id))) return "API Resource IDs can only contain alphanumeric characters and underscores";
  const char *wrong = json_parse(body, &asked->body);
  if (wrong == NULL) wrong = judge_body(endpoints[asked->endpoint].fields, asked);
  if (wrong == NULL && asked->endpoint == SNAPSHOT_LOAD) wrong = judge_backend(asked);
  if (wrong != NULL) return fault_of("An error occurred when deserializing the json body of a request: %s", wrong);
  if (id != NULL && strcmp(id, text_in(asked, endpoints[asked->endpoint].id, "")) != 0) return "The id from the path does not match the id from the body";
  return judge_more(asked);
}
