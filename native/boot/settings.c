/* The `squash.` words: see settings.h. */
#include "boot/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/failure.h"
#include "common/descriptor.h"

/* x86 takes 2,048 bytes of command line. */
enum { LINE_BYTES_MAX = 4096 };

static const struct word {
  const char *name;
  size_t number; /* where its number goes, or NONE */
  size_t text;
} words[] = {
#define NONE SIZE_MAX
#define NUMBER(field) offsetof(struct settings, field), NONE
#define TEXT(field) NONE, offsetof(struct settings, field)
    {"lowers", NUMBER(lowers)},         {"shm", NUMBER(shm_bytes)},   {"files", NUMBER(files)},
    {"pids", NUMBER(pids)},             {"time", NUMBER(time)},       {"hostname", TEXT(hostname)},
    {"copied", NUMBER(copied)},
    {"nameserver", TEXT(nameserver)},   {"address", TEXT(address)},   {"gateway", TEXT(gateway)},
    {"ordered", NUMBER(ordered)},       {"reads", NUMBER(reads)},
};

static void set(struct settings *settings, const struct word *word, const char *value) {
  errno = EINVAL;
  if (word->text != NONE) {
    size_t length = strlen(value);
    if (length >= SETTINGS_TEXT_MAX) boot_fail("squash.%s is too long", word->name);
    memcpy((char *)settings + word->text, value, length + 1);
    return;
  }
  char *end;
  uint64_t number = value[0] >= '0' && value[0] <= '9' ? strtoull(value, &end, 10) : 0;
  if (value[0] < '0' || value[0] > '9' || *end != '\0') boot_fail("squash.%s is no number", word->name);
  memcpy((char *)settings + word->number, &number, sizeof number);
}

/* What a word of the command line can't hold is `%` and two digits. */
static void decode(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0'; from++, to++) {
    unsigned byte;
    *to = *from;
    if (*from != '%' || sscanf(from + 1, "%2x", &byte) != 1) continue;
    *to = (char)byte;
    from += 2;
  }
  *to = '\0';
}

static void set_mount(struct settings *settings, char *value) {
  decode(value);
  bool is_fine = (strncmp(value, "ro:", 3) == 0 || strncmp(value, "rw:", 3) == 0) && value[3] != '\0';
  if (!is_fine || settings->mount_count == SETTINGS_MOUNTS_MAX) boot_fail("squash.mount is wrong");
  settings->mounts[settings->mount_count++] = value;
}

static void take(struct settings *settings, char *word) {
  static const char prefix[] = "squash.";
  if (strncmp(word, prefix, sizeof prefix - 1) != 0) return; /* The kernel's. */
  char *name = word + sizeof prefix - 1, *value = strchr(name, '=');
  errno = EINVAL;
  if (value == NULL) boot_fail("\"%s\" has no value", word);
  *value++ = '\0';
  if (strcmp(name, "mount") == 0) {
    set_mount(settings, value);
    return;
  }
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcmp(words[i].name, name) == 0) {
      set(settings, &words[i], value);
      return;
    }
  }
  boot_fail("\"%s\" is not known", word);
}

void settings_read(struct settings *settings) {
  static char line[LINE_BYTES_MAX];
  cleanup_fd fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
  if (got < 0) boot_fail("read the command line");
  settings_take(settings, line);
}

void settings_take(struct settings *settings, char *line) {
  char *rest;
  for (char *word = strtok_r(line, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) take(settings, word);
  errno = EINVAL;
  if (settings->copied != 0 && settings->hostname[0] == '\0') return; /* The others are to come. */
  if (settings->lowers == 0 || settings->lowers > SETTINGS_LOWERS_MAX) boot_fail("squash.lowers is out of range");
  if (settings->hostname[0] == '\0') boot_fail("squash.hostname is missing");
}
