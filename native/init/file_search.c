/*
 * Searching the contents of files: a fixed text or a POSIX extended regular expression, line by line, the first match of each
 * line. Files with a NUL byte are taken for no text and left out from there. Only regular files are opened.
 *
 * What is not matched is bounded as well: a line longer than the buffer is searched in pieces, and the whole search ends
 * behind so many bytes read.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/glob.h"
#include "init/request.h"
#include "init/walk.h"

enum {
  TEXT_BYTES_MAX = 4096,
  /* Of a line before the match, where it does not fit as a whole. */
  LEAD_BYTES = 64,
  TEXT_BYTES_MIN = 128,
  /* An expression of few bytes can stand for an automaton of gigabytes. */
  REGEX_MEMORY_MAX = 268435456,
};

struct search {
  int socket;
  uint64_t matches_left;
  uint64_t bytes_left;
  uint64_t text_bytes_max;
  bool is_truncated;
  bool has_pattern;
  bool is_regex;
  bool ignores_case;
  const char *text;
  regex_t regex;
  struct glob pattern;
  uint64_t states[GUEST_WALK_DEPTH_MAX + 2];
};

/* A piece of a file: `start` … `end` holds whole lines, or a piece of one that is longer than the buffer. */
struct text_file {
  const char *path;
  uint64_t line;
  uint64_t line_offset; /* of `start` in its line */
};

static struct search search;
static char lines[sizeof scratch + 1];

/* Where in the terminated `line` the text stands; -1: nowhere. */
static int64_t find(const char *line) {
  if (search.is_regex) {
    regmatch_t match;
    return regexec(&search.regex, line, 1, &match, 0) == 0 ? (int64_t)match.rm_so : -1;
  }
  const char *at = search.ignores_case ? strcasestr(line, search.text) : strstr(line, search.text);
  return at == NULL ? -1 : at - line;
}

static void tell(const struct text_file *file, const char *line, size_t length, size_t at) {
  uint8_t buffer[GUEST_PATH_BYTES_MAX + TEXT_BYTES_MAX + 128];
  size_t from = length > search.text_bytes_max && at > LEAD_BYTES ? at - LEAD_BYTES : 0;
  size_t told = length - from < search.text_bytes_max ? length - from : (size_t)search.text_bytes_max;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_ENTRY);
  frame_text(&writer, FIELD_PATH, file->path);
  frame_integer(&writer, FIELD_LINE, file->line);
  frame_integer(&writer, FIELD_COLUMN, file->line_offset + at + 1);
  frame_integer(&writer, FIELD_OFFSET, file->line_offset + from);
  frame_bytes(&writer, FIELD_TEXT, line + from, told);
  answer_writer(search.socket, &writer);
}

/* One line or piece of it, terminated by this. False: the search is over. */
static bool search_line(struct text_file *file, char *line, size_t length) {
  line[length] = '\0';
  int64_t at = find(line);
  if (at < 0) return true;
  search.is_truncated = search.matches_left == 0;
  if (search.is_truncated) return false;
  search.matches_left--;
  tell(file, line, length, (size_t)at);
  return true;
}

/* All whole lines in the buffer. Returns where what is left begins, or -1 where the search is over. */
static ssize_t search_lines(struct text_file *file, size_t used, bool is_end) {
  size_t at = 0;
  while (at < used) {
    char *end = memchr(lines + at, '\n', used - at);
    bool is_piece = end == NULL && at == 0 && used == sizeof scratch;
    if (end == NULL && !is_end && !is_piece) break;
    size_t length = end == NULL ? used - at : (size_t)(end - lines) - at;
    if (!search_line(file, lines + at, length)) return -1;
    at += length + (end != NULL);
    file->line += end != NULL;
    file->line_offset = end != NULL ? 0 : file->line_offset + length;
  }
  return (ssize_t)at;
}

/* False: the search is over. */
static bool search_file(int fd, const char *path) {
  struct text_file file = {.path = path, .line = 1};
  for (size_t used = 0;;) {
    answer_progress(search.socket);
    size_t room = sizeof scratch - used;
    ssize_t got = read(fd, lines + used, room < search.bytes_left ? room : (size_t)search.bytes_left);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || memchr(lines + used, '\0', (size_t)got) != NULL) return true;
    search.bytes_left -= (uint64_t)got;
    used += (size_t)got;
    search.is_truncated = search.bytes_left == 0;
    ssize_t done = search_lines(&file, used, got == 0);
    if (done < 0 || search.is_truncated) return false;
    if (got == 0) return true;
    used -= (size_t)done;
    memmove(lines, lines + done, used);
  }
}

static uint64_t states_of(const struct walk_entry *entry) {
  uint64_t states = glob_step(&search.pattern, search.states[entry->depth - 1], entry->name);
  search.states[entry->depth] = states;
  return states;
}

static bool search_entry(void *owner, const struct walk_entry *entry) {
  (void)owner;
  answer_progress(search.socket);
  if (!S_ISREG(entry->stat.st_mode)) return true;
  if (search.has_pattern && !glob_is_matched(&search.pattern, states_of(entry))) return true;
  cleanup_fd fd = file_open(entry->directory, entry->name, O_RDONLY | O_NOFOLLOW, 0);
  return fd < 0 || search_file(fd, entry->path); /* Gone, or closed to this user, or no file any more. */
}

static bool search_enters(void *owner, const struct walk_entry *entry) {
  (void)owner;
  return !search.has_pattern || glob_goes_on(&search.pattern, states_of(entry));
}

/* Returns NULL or what is wrong. */
static const char *parse(void) {
  uint64_t is_regex = 0, ignores_case = 0;
  search.matches_left = search.bytes_left = INTEGER_MAX;
  search.text_bytes_max = TEXT_BYTES_MAX;
  (void)request_integer(FIELD_ENTRIES_MAX, 0, INTEGER_MAX, &search.matches_left); /* Every integer is in range. */
  (void)request_integer(FIELD_BYTES_MAX, 0, INTEGER_MAX, &search.bytes_left);
  if (!request_integer(FIELD_LENGTH, TEXT_BYTES_MIN, TEXT_BYTES_MAX, &search.text_bytes_max) ||
      !request_integer(FIELD_REGEX, 0, 1, &is_regex) || !request_integer(FIELD_IGNORE_CASE, 0, 1, &ignores_case)) {
    return "length, regex or ignoreCase is out of range";
  }
  search.text = request_text(FIELD_TEXT);
  if (search.text == NULL || search.text[0] == '\0') return "there is no text to search for";
  const char *pattern = request_text(FIELD_PATTERN);
  search.has_pattern = pattern != NULL;
  if (pattern != NULL && !glob_parse(&search.pattern, pattern)) return GLOB_WRONG;
  if (pattern != NULL) search.states[0] = glob_start(&search.pattern);
  search.is_regex = is_regex == 1;
  search.ignores_case = ignores_case == 1;
  if (!search.is_regex) return NULL;
#ifndef __SANITIZE_ADDRESS__ /* Its shadow alone is larger. */
  struct rlimit memory = {REGEX_MEMORY_MAX, REGEX_MEMORY_MAX};
  (void)setrlimit(RLIMIT_DATA, &memory); /* Without it the sandbox's own limit holds. */
#endif
  int wrong = regcomp(&search.regex, search.text, REG_EXTENDED | REG_NEWLINE | (search.ignores_case ? REG_ICASE : 0));
  if (wrong == 0) return NULL;
  static char text[128] = "the expression is not valid: ";
  size_t at = strlen(text);
  (void)regerror(wrong, &search.regex, text + at, sizeof text - at);
  return wrong == REG_ESPACE ? "the expression is too large" : text;
}

void file_search(int socket) {
  search.socket = socket;
  const char *wrong = parse();
  if (wrong != NULL) {
    answer_bad_request(socket, wrong);
    return;
  }
  struct walk_visitor visitor = {.visit = search_entry, .enters = search_enters, .depth_max = GUEST_WALK_DEPTH_MAX};
  cleanup_fd root = open(request_path(FIELD_PATH), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat stat;
  int result = root < 0 ? -1 : fstat(root, &stat);
  if (result == 0 && S_ISDIR(stat.st_mode)) {
    result = walk_tree(root, &visitor);
  } else if (result == 0 && S_ISREG(stat.st_mode)) {
    (void)search_file(root, "");
  } else if (result == 0) {
    result = -1;
    errno = EINVAL;
  }
  if (result != 0) answer_error(socket, errno, "search");
  else answer_end_of_list(socket, search.is_truncated);
}
