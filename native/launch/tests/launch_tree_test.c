/* Measuring and removing trees that were made to be a nuisance. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tree.h"
#include "tests/check.h"

/* Deeper than any path may be long, and than a process may have descriptors. */
enum { DEPTH = 2000 };

static void make_deep(int parent) {
  int at = dup(parent);
  for (int i = 0; i < DEPTH; i++) {
    CHECK(mkdirat(at, "d", 0700) == 0);
    if (i % 1000 == 0) {
      CHECK(mkdirat(at, "z", 0700) == 0);
      CHECK(symlinkat("/etc", at, "link") == 0);
    }
    int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(next >= 0);
    close(at);
    at = next;
  }
  close(at);
}

static void make_file(int directory, const char *name, size_t bytes) {
  cleanup_fd fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  char block[4096] = {1};
  for (size_t done = 0; done < bytes; done += sizeof block) CHECK(write(fd, block, sizeof block) == sizeof block);
}

static int count_directory(void *context, int directory, const char *path) {
  (void)directory;
  CHECK(strstr(path, "link") == NULL);
  (*(unsigned *)context)++;
  return 0;
}

static bool is_there(int directory, const char *name) {
  struct stat status;
  return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static int below(int directory, const char *name) {
  CHECK(is_there(directory, name) || mkdirat(directory, name, 0700) == 0);
  return openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Layers lie one on another as an overlay would show them, whatever their names are. */
static void merge_layers(int data) {
  static const char *const layers[] = {"upper", "lower"};
  struct fault fault = {0};
  cleanup_fd lower = below(data, "lower");
  cleanup_fd upper = below(data, "upper");
  cleanup_fd into = below(data, "into");
  cleanup_fd replaced = below(data, "replaced");
  cleanup_fd lower_kept = below(lower, "kept");
  cleanup_fd upper_kept = below(upper, "kept");
  cleanup_fd lower_hidden = below(lower, "hidden");
  cleanup_fd upper_hidden = below(upper, "hidden");
  cleanup_fd upper_file = below(upper, "file");
  make_file(lower, "file", 4096);
  make_file(lower_kept, "old", 4096);
  make_file(upper_kept, "new", 4096);
  make_file(lower_hidden, "old", 4096);
  make_file(upper, ".wh.gone", 4096);
  make_file(upper, ".wh.", 4096);
  make_file(upper_hidden, ".wh..wh..opq", 4096);
  CHECK(symlinkat("/etc", upper, "link") == 0 && symlinkat("/etc", upper, ".wh.link") == 0);
  CHECK(tree_translate_marks(upper, &fault) == 0);
  CHECK(tree_is_opaque(upper_hidden) && !tree_is_opaque(upper_kept));
  struct stat status;
  CHECK(fstatat(upper, "gone", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == 0);
  const struct tree_stack stack = {.layers = layers, .count = 2, .into = into, .replaced = replaced};
  CHECK(tree_merge(data, &stack, &fault) == 0);
  CHECK(is_there(into, "kept/old") && is_there(into, "kept/new") && is_there(into, "gone"));
  CHECK(!is_there(into, "hidden/old") && is_there(into, "link"));
  CHECK(fstatat(into, "file", &status, 0) == 0 && S_ISDIR(status.st_mode));
  cleanup_fd file = below(into, "file");
  cleanup_fd hidden = below(into, "hidden");
  CHECK(tree_is_opaque(file) && tree_is_opaque(hidden));
  static const char *const none[] = {"no-layer"};
  const struct tree_stack missing = {.layers = none, .count = 1, .into = into, .replaced = replaced};
  CHECK(tree_merge(data, &missing, &fault) != 0 && strcmp(fault.code, "layer_corrupt") == 0);
  static const char *const made[] = {"lower", "upper", "into", "replaced"};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) CHECK(tree_remove(data, made[i], &fault) == 0);
}

struct told {
  char paths[16][64];
  unsigned count;
  unsigned max;
};

static int tell(void *context, const struct tree_difference *found) {
  struct told *told = context;
  static const char marks[] = {[TREE_ADDED] = '+', [TREE_CHANGED] = '!', [TREE_REMOVED] = '-'};
  CHECK(told->count < 16);
  snprintf(told->paths[told->count++], 64, "%c%.60s", marks[found->change], found->path);
  return 0;
}

static bool has_room_left(void *context) {
  const struct told *told = context;
  return told->count < told->max;
}

static int ignore(void *context, const struct tree_difference *found) {
  (void)context;
  CHECK(found->path[0] != '/');
  return 0;
}

/* A layer on another against that one alone, whatever stands in the way. */
static void diff_layers(int data) {
  struct fault fault = {0};
  char last[PATH_MAX];
  struct told told = {.max = 100};
  cleanup_fd lower = below(data, "lower");
  cleanup_fd upper = below(data, "upper");
  cleanup_fd lower_kept = below(lower, "kept");
  cleanup_fd upper_kept = below(upper, "kept");
  cleanup_fd lower_hidden = below(lower, "hidden");
  cleanup_fd upper_hidden = below(upper, "hidden");
  cleanup_fd upper_file = below(upper, "file");
  make_file(lower, "file", 4096);
  make_file(lower, "gone", 4096);
  make_file(lower, "same", 8192);
  make_file(upper, "same", 8192);
  make_file(lower_kept, "old", 4096);
  make_file(upper_kept, "new", 4096);
  make_file(lower_hidden, "old", 4096);
  make_file(upper, ".wh.gone", 4096);
  make_file(upper_hidden, ".wh..wh..opq", 4096);
  make_file(upper_file, "in", 4096);
  /* A link to a directory is a link, and one to nowhere is no fault. */
  CHECK(symlinkat("hidden", lower, "link") == 0 && symlinkat("/etc", upper, "link") == 0);
  struct tree_diff diff = {.roots = {upper, lower}, .count = 2, .foreign = 1, .after = "", .report = tell,
                           .goes_on = has_room_left, .context = &told};
  diff.to = (struct tree_side){.layers = {0, 1}, .count = 2};
  diff.from = (struct tree_side){.layers = {1}, .count = 1};
  CHECK(tree_diff(&diff, last, &fault) == 0 && last[0] == '\0');
  static const char *const expected[] = {"!file", "+file/in", "-gone", "-hidden/old", "+kept/new", "!link"};
  CHECK(told.count == sizeof expected / sizeof expected[0]);
  for (unsigned i = 0; i < told.count; i++) CHECK(strcmp(told.paths[i], expected[i]) == 0);
  /* One at a time, each behind the last. */
  char after[PATH_MAX] = "";
  struct told pages = {.max = 0};
  do {
    diff.after = after;
    diff.context = &pages;
    pages.max = pages.count + 1;
    CHECK(tree_diff(&diff, last, &fault) == 0);
    snprintf(after, sizeof after, "%s", last);
  } while (last[0] != '\0');
  CHECK(pages.count == told.count && memcmp(pages.paths, told.paths, sizeof pages.paths) == 0);
  /* Deeper than a path may be long: refused, not followed. */
  make_deep(upper_hidden);
  cleanup_fd deeper = below(upper_hidden, "a-name-of-some-length-that-makes-the-path-longer-than-it-may-be-at-all");
  CHECK(renameat(upper_hidden, "d", deeper, "d") == 0);
  cleanup_fd deepest = below(deeper, "z-another-name-that-is-long-and-lies-between-the-two-of-them");
  CHECK(renameat(deeper, "d", deepest, "d") == 0);
  told = (struct told){.max = 1};
  diff.after = "";
  diff.context = &told;
  diff.report = ignore;
  CHECK(tree_diff(&diff, last, &fault) != 0 && strcmp(fault.code, "snapshot_path_too_long") == 0);
  static const char *const made[] = {"lower", "upper"};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) CHECK(tree_remove(data, made[i], &fault) == 0);
}

/* Whoever owns a file may lease it, and then the kernel says "try again" to whoever will not wait for him. */
static void open_leased(int data) {
  make_file(data, "leased", 4096);
  CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR); /* How the kernel tells the owner. */
  cleanup_fd leased = openat(data, "leased", O_RDWR | O_CLOEXEC);
  CHECK(fcntl(leased, F_SETLEASE, F_WRLCK) == 0);
  alarm(10); /* A process that tries for ever ends here. */
  CHECK(open_inside(data, "leased", O_WRONLY | O_NONBLOCK) < 0 && errno == EAGAIN);
  alarm(0);
  CHECK(fcntl(leased, F_SETLEASE, F_UNLCK) == 0 && unlinkat(data, "leased", 0) == 0);
}

/* What lies in the trash, by whoever it was put there. How many could not be removed. */
static unsigned empty_trash(int data) {
  unsigned failed = 0;
  int fd = openat(data, "trash", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    char name[300];
    struct fault fault;
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "trash/%s", entry->d_name);
    if (tree_remove(data, name, &fault) != 0) failed++;
  }
  closedir(entries);
  return failed;
}

/* A new daemon empties the trash while the request of the one before is at work in it. */
static void remove_at_once(int data) {
  CHECK(make_directories(data, "twice", false) == 0);
  {
    cleanup_fd tree = below(data, "twice");
    make_deep(tree);
  }
  pid_t other = fork();
  if (other == 0) {
    struct fault fault;
    _exit(tree_remove(data, "twice", &fault) == 0 ? 0 : 1);
  }
  int status = -1;
  unsigned failed = 0;
  while (waitpid(other, &status, WNOHANG) == 0) failed += empty_trash(data);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(failed == 0 && empty_trash(data) == 0);
}

int main(void) {
  char path[] = "/tmp/launch-tree-XXXXXX";
  struct fault fault;
  struct tree_usage none = {0};
  struct tree_usage usage;
  CHECK(mkdtemp(path) != NULL);
  cleanup_fd data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(make_directories(data, "sandboxes/x", false) == 0);
  cleanup_fd tree = open_beneath(data, "sandboxes/x", O_RDONLY | O_DIRECTORY);
  CHECK(tree_measure(tree, &none, &usage, &fault) == 0 && usage.inodes == 1);
  make_deep(tree);
  CHECK(tree_measure(tree, &none, &usage, &fault) == 0);
  CHECK(usage.inodes == 1 + DEPTH + 2 * (DEPTH / 1000));
  make_file(tree, "file", 1 << 20);
  CHECK(linkat(tree, "file", tree, "second", 0) == 0 && linkat(tree, "file", tree, "third", 0) == 0);
  struct tree_usage before = usage;
  CHECK(tree_measure(tree, &none, &usage, &fault) == 0);
  CHECK(usage.bytes >= before.bytes + (1 << 20) - 8 && usage.bytes < before.bytes + (1 << 20) + 65536);
  CHECK(usage.inodes <= before.inodes + 1);
  /* A maximum ends the walk early and above it. */
  struct tree_usage few = {.inodes = 100};
  CHECK(tree_measure(tree, &few, &usage, &fault) == 0 && usage.inodes > 100 && usage.inodes < 1000);
  unsigned directories = 0;
  const struct tree_visitor visitor = {.visit = count_directory, .context = &directories};
  CHECK(tree_each_directory(tree, &visitor, &fault) == 0 && directories == 1 + DEPTH + DEPTH / 1000);
  merge_layers(data);
  diff_layers(data);
  open_leased(data);
  remove_at_once(data);
  /* The launcher has root's rights over its own ids. */
  if (geteuid() == 0) CHECK(fchmod(tree, 0) == 0);
  CHECK(tree_remove(data, "sandboxes/x", &fault) == 0);
  struct stat status;
  CHECK(fstatat(data, "sandboxes/x", &status, 0) != 0);
  CHECK(tree_remove(data, "sandboxes/x", &fault) == 0);
  CHECK(tree_remove(data, "sandboxes/none/below", &fault) == 0);
  CHECK(symlinkat("sandboxes", data, "link") == 0);
  CHECK(tree_remove(data, "link/x", &fault) != 0);
  CHECK(tree_remove(data, "link", &fault) == 0);
  CHECK(unlinkat(data, "trash", AT_REMOVEDIR) == 0 && unlinkat(data, "sandboxes", AT_REMOVEDIR) == 0);
  CHECK(rmdir(path) == 0);
  return check_summary();
}
