/* See requests.h. */
#include "requests.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 12 };
#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

struct field {
  const char *name;
  enum json_kind kind;
  bool is_required;
  long long min, max;  /* of a number */
  const char *choices; /* of a text: ` one two `; NULL: any */
};

static const struct field machine_config[] = {{"vcpu_count", JSON_NUMBER, true, 1, 32, NULL},
                                              {"mem_size_mib", JSON_NUMBER, true, 1, INT_MAX, NULL},
                                              {"smt", JSON_FLAG, false, 0, 1, NULL},
                                              {"track_dirty_pages", JSON_FLAG, false, 0, 1, NULL},
                                              {"huge_pages", JSON_TEXT, false, 0, 0, " None 2M "},
                                              {NULL}};
static const struct field boot_source[] = {{"kernel_image_path", JSON_TEXT, true, 0, 0, NULL},
                                           {"boot_args", JSON_TEXT, false, 0, 0, NULL},
                                           {"initrd_path", JSON_TEXT, false, 0, 0, NULL},
                                           {NULL}};
static const struct field drive[] = {{"drive_id", JSON_TEXT, true, 0, 0, NULL},
                                     {"is_root_device", JSON_FLAG, true, 0, 1, NULL},
                                     {"path_on_host", JSON_TEXT, false, 0, 0, NULL},
                                     {"is_read_only", JSON_FLAG, false, 0, 1, NULL},
                                     {"cache_type", JSON_TEXT, false, 0, 0, " Unsafe Writeback "},
                                     {"io_engine", JSON_TEXT, false, 0, 0, " Sync Async "},
                                     {"partuuid", JSON_TEXT, false, 0, 0, NULL},
                                     {"rate_limiter", JSON_OBJECT, false, 0, 0, NULL},
                                     {"socket", JSON_TEXT, false, 0, 0, NULL},
                                     {NULL}};
static const struct field network_interface[] = {{"iface_id", JSON_TEXT, true, 0, 0, NULL},
                                                 {"host_dev_name", JSON_TEXT, true, 0, 0, NULL},
                                                 {"guest_mac", JSON_TEXT, false, 0, 0, NULL},
                                                 {"mtu", JSON_NUMBER, false, 68, 65535, NULL},
                                                 {"rx_rate_limiter", JSON_OBJECT, false, 0, 0, NULL},
                                                 {"tx_rate_limiter", JSON_OBJECT, false, 0, 0, NULL},
                                                 {NULL}};
static const struct field vsock[] = {{"guest_cid", JSON_NUMBER, true, 3, UINT32_MAX, NULL},
                                     {"uds_path", JSON_TEXT, true, 0, 0, NULL},
                                     {"vsock_id", JSON_TEXT, false, 0, 0, NULL},
                                     {NULL}};
static const struct field entropy[] = {{"rate_limiter", JSON_OBJECT, false, 0, 0, NULL}, {NULL}};
static const struct field balloon[] = {{"amount_mib", JSON_NUMBER, true, 0, INT_MAX, NULL},
                                       {"deflate_on_oom", JSON_FLAG, true, 0, 1, NULL},
                                       {"stats_polling_interval_s", JSON_NUMBER, false, 0, UINT16_MAX, NULL},
                                       {"free_page_hinting", JSON_FLAG, false, 0, 1, NULL},
                                       {"free_page_reporting", JSON_FLAG, false, 0, 1, NULL},
                                       {NULL}};
static const struct field actions[] = {
    {"action_type", JSON_TEXT, true, 0, 0, " InstanceStart FlushMetrics SendCtrlAltDel "}, {NULL}};

/* With an id in the path where the body has one of that name. */
static const struct {
  const char *path;
  const char *id;
  const struct field *fields;
} endpoints[ENDPOINTS] = {[MACHINE_CONFIG] = {"/machine-config", NULL, machine_config},
                          [BOOT_SOURCE] = {"/boot-source", NULL, boot_source},
                          [DRIVE] = {"/drives/", "drive_id", drive},
                          [NETWORK_INTERFACE] = {"/network-interfaces/", "iface_id", network_interface},
                          [VSOCK] = {"/vsock", NULL, vsock},
                          [ENTROPY] = {"/entropy", NULL, entropy},
                          [BALLOON] = {"/balloon", NULL, balloon},
                          [ACTIONS] = {"/actions", NULL, actions}};

static char fault[512];

__attribute__((format(printf, 1, 2))) static const char *faulty(const char *format, ...) {
  __builtin_va_list values;
  __builtin_va_start(values, format);
  (void)vsnprintf(fault, sizeof fault, format, values);
  __builtin_va_end(values);
  return fault;
}

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

static const char *judge_member(const struct field *field, const struct json_member *member) {
  static const char *const kinds[] = {"a string", "a number", "a boolean", "a map", "null"};
  if (member->kind == JSON_NULL && !field->is_required) return NULL;
  if (member->kind != field->kind) return faulty("`%s`: invalid type: %s, expected %s", field->name, kinds[member->kind], kinds[field->kind]);
  if (field->kind == JSON_NUMBER && (member->number < field->min || member->number > field->max)) {
    return faulty("`%s`: invalid value: %lld", field->name, member->number);
  }
  char word[80];
  (void)snprintf(word, sizeof word, " %.60s ", member->text);
  if (field->choices != NULL && strstr(field->choices, word) == NULL) return faulty("`%s`: unknown variant, expected one of%s", field->name, field->choices);
  return NULL;
}

static const char *judge_body(const struct field *fields, struct asked *asked) {
  for (size_t i = 0; i < asked->body.count; i++) {
    const struct field *field = fields;
    while (field->name != NULL && strcmp(field->name, asked->body.members[i].name) != 0) field++;
    if (field->name == NULL) return faulty("unknown field `%s`", asked->body.members[i].name);
    const char *wrong = judge_member(field, &asked->body.members[i]);
    if (wrong != NULL) return wrong;
  }
  for (const struct field *field = fields; field->name != NULL; field++) {
    if (field->is_required && member_of(asked, field->name) == NULL) return faulty("missing field `%s`", field->name);
  }
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
  return NULL;
}

const char *request_judge(const char *path, const char *body, struct asked *asked) {
  const char *id = NULL;
  asked->endpoint = 0;
  for (; asked->endpoint < ENDPOINTS; asked->endpoint++) {
    const char *known = endpoints[asked->endpoint].path;
    id = endpoints[asked->endpoint].id == NULL ? NULL : path + strlen(known);
    if (id == NULL ? strcmp(path, known) == 0 : strncmp(path, known, strlen(known)) == 0) break;
  }
  if (asked->endpoint == ENDPOINTS) return faulty("Invalid request method and/or path: PUT %.80s", path);
  if (id != NULL && (id[0] == '\0' || strspn(id, ID_CHARACTERS) != strlen(id))) return "API Resource IDs can only contain alphanumeric characters and underscores";
  const char *wrong = json_parse(body, &asked->body);
  if (wrong == NULL) wrong = judge_body(endpoints[asked->endpoint].fields, asked);
  if (wrong != NULL) {
    static char whole[640];
    (void)snprintf(whole, sizeof whole, "An error occurred when deserializing the json body of a request: %s", wrong);
    return whole;
  }
  if (id != NULL && strcmp(id, text_in(asked, endpoints[asked->endpoint].id, "")) != 0) return "The id from the path does not match the id from the body";
  return judge_more(asked);
}
