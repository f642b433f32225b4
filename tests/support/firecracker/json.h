/* One JSON object with values that are texts, numbers, flags, objects and lists, as the requests to Firecracker are. */
#ifndef JSON_H
#define JSON_H
#include <stdbool.h>
#include <stddef.h>

enum json_kind { JSON_TEXT, JSON_NUMBER, JSON_FLAG, JSON_OBJECT, JSON_LIST, JSON_NULL };

struct json_member {
  char name[64];
  enum json_kind kind;
  char text[2304]; /* of a text, and what is written of an object or a list */
  long long number; /* of a whole number, and of a flag */
};

enum { JSON_MEMBERS_MAX = 16 };

struct json_object {
  struct json_member members[JSON_MEMBERS_MAX];
  size_t count;
};

/* Returns NULL, or what is wrong: also a name that comes twice. What is in an inner object or list is only parsed. */
const char *json_parse(const char *text, struct json_object *object);

#endif
