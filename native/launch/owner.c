/* Giving directories to the daemon's id: see owner.h. */
#include "launch/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/ids.h"

bool owner_is_of_range(unsigned uid) {
  return (uid >= ROOT_RANGE_FIRST && uid - ROOT_RANGE_FIRST < (unsigned)ROOT_RANGE_IDS) ||
         (uid >= OWN_RANGES_FIRST && (uid - OWN_RANGES_FIRST) / SANDBOX_IDS < (unsigned)OWN_RANGES);
}

uid_t owner_of_process(pid_t pid) {
  char path[64];
  char text[2048];
  unsigned real;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  if (text_file_read(AT_FDCWD, path, text, sizeof text) < 0) return (uid_t)-1;
  const char *line = strstr(text, "\nUid:");
  return line != NULL && sscanf(line, "\nUid: %u", &real) == 1 ? real : (uid_t)-1;
}

const char *owner_path_below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  while (length > 1 && directory[length - 1] == '/') length--;
  if (strncmp(path, directory, length) != 0 || path[length] != '/') return NULL;
  const char *rest = path + length + strspn(path + length, "/");
  return path_is_relative(rest) ? rest : NULL;
}

/* Only what root owns and has no second name: a hard link to a file elsewhere must not change its owner. */
static void give_away_entries(int directory) {
  DIR *entries = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    struct stat status;
    if (strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, ".") == 0) continue;
    /* Neither a link nor the root of another mount opens. */
    cleanup_fd fd = open_inside(directory, entry->d_name, O_PATH);
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_uid != 0) continue;
    if (!S_ISDIR(status.st_mode) && (!S_ISREG(status.st_mode) || status.st_nlink != 1)) continue;
    (void)fchownat(fd, "", ROOT_RANGE_FIRST, ROOT_RANGE_FIRST, AT_EMPTY_PATH);
  }
  closedir(entries);
}

static void give_away_below(int directory, const char *name) {
  cleanup_fd below = open_inside(directory, name, O_RDONLY | O_DIRECTORY);
  if (below >= 0) give_away_entries(below);
}

/* Of the original's sandboxes what says how they were and their snapshots; what was written in them keeps its owners. */
static void give_away_sandboxes(int sandboxes) {
  DIR *entries = fdopendir(openat(sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == NULL) return;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    cleanup_fd sandbox = open_inside(sandboxes, entry->d_name, O_RDONLY | O_DIRECTORY);
    if (sandbox < 0) continue;
    give_away_below(sandbox, ".meta");
    give_away_below(sandbox, "snapshots");
    give_away_entries(sandbox);
  }
  closedir(entries);
}

/* From the inside out: a new owner could exchange what lies in his directory meanwhile. */
static void give_away_all(int directory) {
  give_away_below(directory, "modules");
  give_away_below(directory, "proxy-ca");
  cleanup_fd sandboxes = open_inside(directory, "sandboxes", O_RDONLY | O_DIRECTORY);
  if (sandboxes >= 0) {
    give_away_sandboxes(sandboxes);
    give_away_entries(sandboxes);
  }
  give_away_entries(directory);
}

static int give_away(int directory, const char *path, struct fault *fault) {
  struct stat status;
  uid_t wanted = ids_daemon_user();
  if (fstat(directory, &status) != 0) return fault_set(fault, "launch_failed", "can't look at \"%s\"", path);
  if (status.st_uid == wanted) return 0;
  errno = 0;
  if (!is_root_of_range() || status.st_uid != 0) {
    return fault_set(fault, "launch_failed", "\"%s\" belongs to uid %u; it has to belong to uid %u", path,
                     status.st_uid, wanted);
  }
  give_away_all(directory);
  if (fchown(directory, ROOT_RANGE_FIRST, ROOT_RANGE_FIRST) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't give \"%s\" to uid %u", path, ROOT_RANGE_FIRST);
}

/* Does the way to `path` lead through something that the daemon's ids could replace? */
static bool is_reached_through_range(const char *path) {
  char prefix[PATH_MAX];
  struct stat status;
  for (const char *end = path + 1; snprintf(prefix, sizeof prefix, "%.*s", (int)(end - path), path) > 0; end++) {
    bool is_last = *end == '\0';
    if ((is_last || *end == '/') && lstat(prefix, &status) == 0 && (!is_last || S_ISLNK(status.st_mode)) &&
        owner_is_of_range(status.st_uid)) {
      return true;
    }
    if (is_last) return false;
  }
  return true;
}

int owner_open(const char *path, const char *given, struct fault *fault) {
  struct stat status;
  cleanup_fd directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || fstat(directory, &status) != 0) {
    return fault_set(fault, "launch_failed", "can't open \"%s\"", path);
  }
  errno = 0;
  if (is_root_of_range() && status.st_uid == 0 &&
      (is_reached_through_range(given) || is_reached_through_range(path))) {
    return fault_set(fault, "launch_failed", "\"%s\" is root's and lies behind a directory of uid %u: it is not given away",
                     given, ROOT_RANGE_FIRST);
  }
  return give_away(directory, path, fault) == 0 ? take_fd(&directory) : -1;
}

int owner_open_below(int data_fd, const char *path, struct fault *fault) {
  bool is_root = is_root_of_range();
  /* Made with the daemon's id: root makes nothing in a directory of somebody else. */
  if (is_root && (setegid(ROOT_RANGE_FIRST) != 0 || seteuid(ROOT_RANGE_FIRST) != 0)) {
    return fault_set(fault, "launch_failed", "can't become the daemon's id");
  }
  int made = make_directories(data_fd, path, false);
  int why = errno;
  if (is_root && (seteuid(0) != 0 || setegid(0) != 0)) _exit(1);
  errno = why;
  if (made != 0) return fault_disk(fault, "launch_failed", "can't make \"%s\" in the data directory", path);
  cleanup_fd directory = open_inside(data_fd, path, O_RDONLY | O_DIRECTORY);
  if (directory < 0) {
    return fault_set(fault, "launch_failed", "can't open \"%s\": in the data directory it has to be a directory, no link "
                     "and no mount", path);
  }
  return give_away(directory, path, fault) == 0 ? take_fd(&directory) : -1;
}
