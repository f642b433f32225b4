/* Measuring and removing trees that were made to be a nuisance. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/file.h"
#include "launch/tree.h"
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
  CHECK(fchmod(tree, 0) == 0);
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
