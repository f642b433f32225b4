/* Patterns of paths: see glob.h. */
#include "init/glob.h"

#include <limits.h>
#include <string.h>

static bool is_any(const char *part) {
  return strcmp(part, "**") == 0;
}

/* The byte behind the bracket expression that begins at `at`, or NULL where it has no end. */
static const char *behind_brackets(const char *at) {
  at++;
  if (*at == '!' || *at == '^') at++;
  if (*at == ']') at++; /* The first one is meant. */
  for (; *at != '\0'; at++) {
    if (*at == '\\' && at[1] != '\0') at++;
    else if (*at == ']') return at + 1;
  }
  return NULL;
}

/* The byte behind one that may be escaped or a bracket expression, or NULL. */
static const char *behind_one(const char *at) {
  if (*at == '[') return behind_brackets(at);
  if (*at == '\\') return at[1] == '\0' ? NULL : at + 2;
  return at + 1;
}

/* The `}` of a group, or NULL. Groups have no groups in them. */
static const char *end_of_group(const char *at) {
  for (at++; at != NULL && *at != '\0' && *at != '{'; at = behind_one(at)) {
    if (*at == '}') return at;
  }
  return NULL;
}

static bool is_well_formed(const char *part) {
  bool is_in_group = false;
  for (const char *at = part; *at != '\0';) {
    if (*at == '{' && end_of_group(at) == NULL) return false;
    if (*at == '{') is_in_group = true;
    if (*at == '}') is_in_group = false;
    at = behind_one(at);
    if (at == NULL) return false;
  }
  return !is_in_group;
}

bool glob_parse(struct glob *glob, const char *pattern) {
  size_t length = strlen(pattern);
  if (length == 0 || length > GLOB_BYTES_MAX) return false;
  memcpy(glob->text, pattern, length + 1);
  glob->count = 0;
  for (char *at = glob->text; at != NULL;) {
    char *slash = strchr(at, '/');
    if (slash != NULL) *slash = '\0';
    if (glob->count == GLOB_PARTS_MAX || at[0] == '\0' || strlen(at) > GLOB_PART_BYTES_MAX || !is_well_formed(at)) return false;
    glob->parts[glob->count++] = at;
    at = slash == NULL ? NULL : slash + 1;
  }
  return true;
}

static bool is_in_brackets(const char *at, const char *end, unsigned char byte) {
  at++;
  bool is_negated = *at == '!' || *at == '^';
  if (is_negated) at++;
  bool is_found = false;
  for (end--; at < end;) { /* `end` is the closing bracket now. */
    if (*at == '\\' && at + 1 < end) at++;
    unsigned char from = (unsigned char)*at++, to = from;
    if (at + 1 < end && *at == '-') {
      at++;
      if (*at == '\\' && at + 1 < end) at++;
      to = (unsigned char)*at++;
    }
    if (byte >= from && byte <= to) is_found = true;
  }
  return is_found != is_negated;
}

struct match {
  const char *part;
  const char *name;
  /* Pairs of places that are known not to match: without them time would grow with the power of the stars. */
  uint8_t failed[(GLOB_PART_BYTES_MAX + 1) * (NAME_MAX + 1) / 8];
};

static bool matches(struct match *match, const char *at, const char *name, const char *group_end);

static bool matches_group(struct match *match, const char *at, const char *name) {
  const char *end = end_of_group(at);
  for (at++;; at++) {
    if (matches(match, at, name, end)) return true;
    while (at < end && *at != ',') at = behind_one(at);
    if (at == end) return false;
  }
}

static bool matches_here(struct match *match, const char *at, const char *name, const char *group_end) {
  if (group_end != NULL && (*at == ',' || at == group_end)) return matches(match, group_end + 1, name, NULL);
  if (*at == '\0') return *name == '\0';
  if (*at == '{') return matches_group(match, at, name);
  if (*at == '*') {
    return matches(match, at + 1, name, group_end) || (*name != '\0' && matches(match, at, name + 1, group_end));
  }
  if (*name == '\0') return false;
  const char *next = behind_one(at);
  bool is_same = *at == '?' || (*at == '[' ? is_in_brackets(at, next, (unsigned char)*name)
                                           : (*at == '\\' ? at[1] : *at) == *name);
  return is_same && matches(match, next, name + 1, group_end);
}

/* Whether the rest of the part matches the rest of the name. A place in the part says in which group it stands. */
static bool matches(struct match *match, const char *at, const char *name, const char *group_end) {
  size_t pair = (size_t)(at - match->part) * (NAME_MAX + 1) + (size_t)(name - match->name);
  if ((match->failed[pair / 8] & 1u << pair % 8) != 0) return false;
  if (matches_here(match, at, name, group_end)) return true;
  match->failed[pair / 8] |= (uint8_t)(1u << pair % 8);
  return false;
}

static bool part_matches(const char *part, const char *name) {
  static struct match match;
  if (name[0] == '.' && part[0] != '.' && !(part[0] == '\\' && part[1] == '.')) return false;
  if (strlen(name) > NAME_MAX) return false;
  match.part = part;
  match.name = name;
  memset(match.failed, 0, ((strlen(part) + 1) * (NAME_MAX + 1) + 7) / 8);
  return matches(&match, part, name, NULL);
}

/* A `**` may also match nothing. */
static uint64_t with_skips(const struct glob *glob, uint64_t states) {
  for (unsigned i = 0; i < glob->count; i++) {
    if ((states & UINT64_C(1) << i) != 0 && is_any(glob->parts[i])) states |= UINT64_C(1) << (i + 1);
  }
  return states;
}

uint64_t glob_start(const struct glob *glob) {
  return with_skips(glob, 1);
}

uint64_t glob_step(const struct glob *glob, uint64_t states, const char *name) {
  uint64_t next = 0;
  for (unsigned i = 0; i < glob->count; i++) {
    if ((states & UINT64_C(1) << i) == 0) continue;
    if (is_any(glob->parts[i])) next |= name[0] == '.' ? 0 : UINT64_C(1) << i;
    else if (part_matches(glob->parts[i], name)) next |= UINT64_C(1) << (i + 1);
  }
  return with_skips(glob, next);
}

bool glob_is_matched(const struct glob *glob, uint64_t states) {
  return (states & UINT64_C(1) << glob->count) != 0;
}

bool glob_goes_on(const struct glob *glob, uint64_t states) {
  return (states & ~(UINT64_C(1) << glob->count)) != 0;
}
