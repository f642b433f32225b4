/* See json.h. */
#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8 };

static const char *object_of(const char **at, struct json_object *object, unsigned depth);
static const char *list_of(const char **at, unsigned depth);

static void skip_space(const char **at) { *at += strspn(*at, " \t\r\n"); }

static bool take(const char **at, const char *word) {
  skip_space(at);
  if (strncmp(*at, word, strlen(word)) != 0) return false;
  *at += strlen(word);
  return true;
}

/* Escapes are those of one character: a client that sends others is told so. */
static const char *text_of(const char **at, char *into, size_t size) {
  size_t used = 0;
  if (!take(at, "\"")) return "expected a text";
  for (; **at != '"'; (*at)++) {
    char character = **at;
    if ((unsigned char)character < 0x20) return "control character in a text";
    if (character == '\\') {
      static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
      size_t i = 0;
      (*at)++;
      while (escapes[i] != '\0' && escapes[i] != **at) i += 2;
      if (escapes[i] == '\0' || **at == '\0') return "invalid escape";
      character = escapes[i + 1];
    }
    if (used + 1 >= size) return "a text is too long";
    into[used++] = character;
  }
  into[used] = '\0';
  (*at)++;
  return NULL;
}

static const char *number_of(const char **at, struct json_member *member) {
  char *end;
  if (!isdigit((unsigned char)(*at)[**at == '-' ? 1 : 0])) return "expected a value";
  member->number = strtoll(*at, &end, 10);
  if (*end == '.' || *end == 'e' || *end == 'E') return "invalid type: floating point, expected a whole number";
  *at = end;
  return NULL;
}

/* As it is written. */
static const char *inner_of(const char **at, struct json_member *member, unsigned depth) {
  static struct json_object inner[DEPTH_MAX];
  const char *from = *at;
  if (depth + 1 == DEPTH_MAX) return "too deep";
  const char *wrong = member->kind == JSON_LIST ? list_of(at, depth + 1) : object_of(at, &inner[depth], depth + 1);
  size_t length = (size_t)(*at - from);
  if (wrong != NULL) return wrong;
  if (length >= sizeof member->text) return "an inner value is too long";
  memcpy(member->text, from, length);
  member->text[length] = '\0';
  return NULL;
}

static const char *value_of(const char **at, struct json_member *member, unsigned depth) {
  skip_space(at);
  if (**at == '"') {
    member->kind = JSON_TEXT;
    return text_of(at, member->text, sizeof member->text);
  }
  if (**at == '{' || **at == '[') {
    member->kind = **at == '{' ? JSON_OBJECT : JSON_LIST;
    return inner_of(at, member, depth);
  }
  member->kind = JSON_FLAG;
  if (take(at, "true")) {
    member->number = 1;
    return NULL;
  }
  if (take(at, "false")) return NULL;
  member->kind = JSON_NULL;
  if (take(at, "null")) return NULL;
  member->kind = JSON_NUMBER;
  return number_of(at, member);
}

static const char *list_of(const char **at, unsigned depth) {
  static struct json_member items[DEPTH_MAX];
  if (!take(at, "[")) return "expected a list";
  if (take(at, "]")) return NULL;
  do {
    const char *wrong = value_of(at, &items[depth], depth);
    if (wrong != NULL) return wrong;
  } while (take(at, ","));
  return take(at, "]") ? NULL : "expected `,` or `]`";
}

static const char *object_of(const char **at, struct json_object *object, unsigned depth) {
  object->count = 0;
  if (!take(at, "{")) return "expected an object";
  if (take(at, "}")) return NULL;
  do {
    struct json_member *member = &object->members[object->count];
    if (object->count == JSON_MEMBERS_MAX) return "too many fields";
    *member = (struct json_member){.number = 0};
    skip_space(at);
    const char *wrong = text_of(at, member->name, sizeof member->name);
    if (wrong == NULL && !take(at, ":")) wrong = "expected `:`";
    if (wrong == NULL) wrong = value_of(at, member, depth);
    if (wrong != NULL) return wrong;
    for (size_t i = 0; i < object->count; i++) {
      if (strcmp(object->members[i].name, member->name) == 0) return "duplicate field";
    }
    object->count++;
  } while (take(at, ","));
  return take(at, "}") ? NULL : "expected `,` or `}`";
}

const char *json_parse(const char *text, struct json_object *object) {
  const char *wrong = object_of(&text, object, 0);
  skip_space(&text);
  return wrong != NULL || *text == '\0' ? wrong : "trailing characters";
}
