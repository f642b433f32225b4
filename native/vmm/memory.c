/* The guest's memory: see memory.h. */
#include "vmm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/disk.h"

enum { WORD_BYTES_MAX = 512 };
#define MARK "{memory_end}"

static int memory = -1;
/* Shared with the process that reads it: where that one has come to is where this one is. */
static int stream = -1;

int memory_open(const char *saved) {
  memory = memfd_create("memory", MFD_CLOEXEC);
  if (memory < 0) return -1;
  stream = open(saved, O_RDONLY | O_CLOEXEC);
  return stream < 0 ? -1 : 0;
}

int memory_fill(void) { return disk_fill(stream, memory); }

int memory_fd(void) { return memory; }

void memory_mark(char **words) {
  static char word[WORD_BYTES_MAX];
  if (stream < 0) return;
  for (char **at = words; *at != NULL; at++) {
    const char *mark = strstr(*at, MARK);
    if (mark == NULL) continue;
    long long end = (long long)lseek(stream, 0, SEEK_CUR);
    int length = snprintf(word, sizeof word, "%.*s%lld%s", (int)(mark - *at), *at, end, mark + strlen(MARK));
    if (length > 0 && (size_t)length < sizeof word) *at = word;
    return;
  }
}
