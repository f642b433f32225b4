/* What a box has written comes home: see apply.h. */
#include "launch/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/apply_home.h"
#include "launch/box_tree.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/place_trees.h"
#include "launch/upper.h"

/* Where it is written what a killed call has left in the host's directory. */
#define PLANTED "planted"
/* Nobody but the file's owner and his group may write what a box has made, whatever it says. */
enum { MODE_TAKEN = 0775 };

/* ---- making it whole ---- */

static int fill_file(int from, int to) {
  struct stat status;
  if (fstat(from, &status) != 0 || box_copy_file(from, to) != 0) return -1;
  return fchmod(to, status.st_mode & MODE_TAKEN);
}

static int make_link(const struct home *home, const char *path, int directory, const char *name) {
  char text[PATH_MAX];
  const char *last;
  cleanup_fd parent = open_parent(home->from, path, &last);
  ssize_t bytes = parent < 0 ? -1 : readlinkat(parent, last, text, sizeof text - 1);
  if (bytes < 0) return -1;
  text[bytes] = '\0';
  errno = ELNRNG;
  if (!home->takes_outside && box_link_leads_out(home->to, path, text)) return -1;
  return symlinkat(text, directory, name);
}

/* The box's file, link or directory, made anew as `name`. */
static int make_copy(const struct home *home, const char *path, const struct own *own, int directory, const char *name) {
  if (own->kind == OWN_LINK) return make_link(home, path, directory, name);
  if (own->kind == OWN_DIRECTORY) {
    return mkdirat(directory, name, 0700) == 0 ? fchmodat(directory, name, own->status.st_mode & MODE_TAKEN, 0) : -1;
  }
  cleanup_fd from = box_open_file(home->from, path);
  if (from < 0) return -1;
  cleanup_fd to = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  return to < 0 ? -1 : fill_file(from, to);
}

static void unlink_either(int directory, const char *name) {
  if (unlinkat(directory, name, 0) != 0) (void)unlinkat(directory, name, AT_REMOVEDIR);
}

static void forget_planted(const struct home *home) {
  char text[REQUEST_PATH_BYTES_MAX + NAME_MAX + 2];
  const char *name;
  if (text_file_read(home->upper, PLANTED, text, sizeof text) <= 0) return;
  cleanup_fd parent = path_is_relative(text) ? open_parent(home->to, text, &name) : -1;
  if (parent >= 0) unlink_either(parent, name);
  (void)unlinkat(home->upper, PLANTED, 0);
}

/* A word about it that outlives us. */
static int say_planted(const struct home *home, const struct spot *spot, const char *planted) {
  char text[REQUEST_PATH_BYTES_MAX + NAME_MAX + 2];
  snprintf(text, sizeof text, "%.*s%s", (int)(strlen(spot->path) - strlen(spot->name)), spot->path, planted);
  cleanup_fd word = openat(home->upper, PLANTED, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  return word >= 0 && write_whole(word, text, strlen(text)) == 0 ? 0 : -1;
}

/* A file becomes whole without a name where the file system can do that, so that hardly anything can be left there. */
static int plant(const struct home *home, const struct spot *spot, const struct own *own, const char *planted) {
  cleanup_fd from = own->kind == OWN_FILE ? box_open_file(home->from, spot->path) : -1;
  cleanup_fd to = from < 0 ? -1 : openat(spot->parent, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (to >= 0 && fill_file(from, to) != 0) return -1;
  if (say_planted(home, spot, planted) != 0) return -1;
  if (to < 0) return make_copy(home, spot->path, own, spot->parent, planted);
  return linkat(AT_FDCWD, fd_path(to, "").text, spot->parent, planted, AT_SYMLINK_FOLLOW);
}

/* On another file system than the stage's: beside the name. */
static struct outcome place_beside(struct home *home, const struct spot *spot, const struct own *own, struct stat *made) {
  char planted[NAME_MAX + 1];
  struct outcome outcome;
  snprintf(planted, sizeof planted, ".squash-%d-%lld", getpid(), (long long)now_us());
  if (spot->is_there && S_ISDIR(spot->was.st_mode)) return refused_with("a directory on another file system than the box is removed by hand");
  if (plant(home, spot, own, planted) != 0 || fstatat(spot->parent, planted, made, AT_SYMLINK_NOFOLLOW) != 0) outcome = refused_by_kernel();
  else outcome = place_staged(home, spot, spot->parent, planted);
  forget_planted(home);
  return outcome.word == NULL ? refused_by_kernel() : outcome;
}

/* The spot becomes what the box has there. */
static struct outcome place(struct home *home, const struct spot *spot, const struct own *own, struct stat *made) {
  char staged[STAGED_BYTES];
  struct outcome outcome = why_not_replaced(home, spot);
  if (outcome.word != NULL) return outcome;
  stage_name(home, staged);
  if (make_copy(home, spot->path, own, home->upper, staged) != 0 || fstatat(home->upper, staged, made, AT_SYMLINK_NOFOLLOW) != 0) {
    outcome = refused_by_kernel();
    unlink_either(home->upper, staged);
    return outcome;
  }
  outcome = place_staged(home, spot, home->upper, staged);
  if (outcome.word != NULL) return outcome;
  unlink_either(home->upper, staged);
  return place_beside(home, spot, own, made);
}

/* ---- one name ---- */

/* What a repository without a `.git` around it consists of, besides HEAD; and what git reads of it before it does anything. */
static bool is_repository_part(const char *name, size_t bytes) {
  static const char *const parts[] = {"config", "config.worktree", "hooks", "info", "modules", "objects", "refs", "reftable", "worktrees", "commondir", "gitdir"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (strlen(parts[i]) == bytes && strncasecmp(parts[i], name, bytes) == 0) return true;
  }
  return false;
}

/* Which names are git's own depends on what lies beside them on the host: the rest is told by names (protected.ts). */
static bool is_of_repository(const struct home *home, const char *path) {
  char above[REQUEST_PATH_BYTES_MAX + 8];
  struct stat status;
  for (const char *part = path;;) {
    size_t bytes = strcspn(part, "/");
    if (is_repository_part(part, bytes)) {
      snprintf(above, sizeof above, "%.*sHEAD", (int)(part - path), path);
      const char *name;
      cleanup_fd parent = open_parent(home->to, above, &name);
      if (parent >= 0 && fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode)) return true;
    }
    if (part[bytes] == '\0') return false;
    part += bytes + 1;
  }
}

static struct outcome change_mode(const struct spot *spot, const struct own *own) {
  mode_t mode = own->status.st_mode & MODE_TAKEN;
  /* What the host lets others do is not the box's to take away from, nor to add to. */
  mode |= spot->was.st_mode & 0777 & ~(mode_t)MODE_TAKEN;
  if ((spot->was.st_mode & 0777) == mode) return same;
  cleanup_fd there = open_beneath(spot->parent, spot->name, O_RDONLY | O_DIRECTORY);
  return there >= 0 && fchmod(there, mode) == 0 ? applied : refused_by_kernel();
}

static struct outcome bring_to(struct home *home, struct spot *spot, const struct own *own) {
  struct stat made;
  struct outcome outcome;
  bool removes = own->kind == OWN_GONE;
  if (removes && !spot->is_there) return same;
  if (removes) outcome = remove_spot(home, spot);
  else if (own->kind == OWN_DIRECTORY && spot->is_there && S_ISDIR(spot->was.st_mode)) {
    outcome = change_mode(spot, own);
    made = spot->was;
  } else outcome = place(home, spot, own, &made);
  if (is_applied(&outcome)) journal_note(home, spot, removes ? NULL : &made);
  return outcome;
}

static struct outcome bring(struct home *home, const char *path) {
  struct own own;
  struct spot spot = {.path = path};
  if (box_look(home->from, path, &own) != 0) return refused_with("what the box has there can't be looked at");
  if (own.kind == OWN_NOTHING) return same;
  if (own.kind == OWN_OTHER) return refused_with("it is a device, a pipe or a socket");
  if (!home->takes_held && is_of_repository(home, path)) return held_with("git obeys it: it is a part of a repository");
  cleanup_fd parent = open_parent(home->to, path, &spot.name);
  if (parent < 0) return own.kind == OWN_GONE && errno == ENOENT ? same : refused_by_kernel();
  spot.parent = parent;
  spot.is_there = fstatat(parent, spot.name, &spot.was, AT_SYMLINK_NOFOLLOW) == 0;
  if (!spot.is_there && errno != ENOENT) return refused_by_kernel();
  return bring_to(home, &spot, &own);
}

/* ---- the request ---- */

static int send(int client, const char *path, const struct outcome *outcome) {
  static uint8_t buffer[REQUEST_PATH_BYTES_MAX + 512];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_ENTRY);
  frame_text(&writer, FIELD_PATH, path);
  frame_text(&writer, FIELD_CHANGE, outcome->word);
  if (outcome->reason != NULL) frame_text(&writer, FIELD_MESSAGE, outcome->reason);
  size_t length = frame_finish(&writer);
  return length > 0 && write_whole(client, buffer, length) == 0 ? 0 : -1;
}

int apply_send(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  struct home home = {.journal = -1, .changed_us = request->changed_us, .takes_outside = request->takes_outside, .takes_held = request->takes_held};
  errno = 0;
  if (request->mount_count != 1) return fault_set(fault, "invalid_request", "changes of one place at a time");
  const struct mount_wish *wish = &request->mounts[0];
  cleanup_fd to = places_open(launcher, wish, fault);
  cleanup_fd upper = to < 0 ? -1 : upper_open(launcher, request, fault);
  if (upper < 0) return -1;
  cleanup_fd data = open_beneath(upper, "data", O_PATH | O_DIRECTORY);
  cleanup_fd from = data < 0 ? -1 : open_beneath(data, wish->target, O_RDONLY | O_DIRECTORY);
  home.upper = upper;
  home.from = from;
  home.to = to;
  if (make_directories(upper, "stage", false) != 0 || journal_open(&home) != 0) return fault_disk(fault, "launch_failed", "can't make room beside the upper");
  cleanup_fd journal = home.journal; /* Closed behind the last line. */
  (void)journal;
  forget_planted(&home);
  for (size_t i = 0; i < request->path_count; i++) {
    /* Nothing was ever written there, or the box has made something else of the way to it. */
    struct outcome outcome = from < 0 ? same : bring(&home, request->paths[i]);
    if (send(request->client, request->paths[i], &outcome) != 0) return fault_set(fault, "launch_failed", "nobody listens");
  }
  return 0;
}
