/*
 * One name of the host's directory gets what is staged, or goes: see apply_home.h.
 *
 * The host's user works there meanwhile. So what is replaced or removed is taken away first, by a rename, and looked at then: what
 * nobody can reach by its name any more changes only by whoever has it open. If it is not what was judged it comes back.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/apply_home.h"
#include "common/clock.h"
#include "common/file.h"
#include "tree/tree.h"

#define STAGE "stage"
enum { NO_REPLACE = 1, EXCHANGE = 2 };

const struct outcome applied = {"applied", NULL};
const struct outcome same = {"same", NULL};
static const struct outcome none = {NULL, NULL};
/* What could not be given back is not thrown away. */
static const char kept[] = "it was changed meanwhile, and what it was lies in the box's stage";
static const char changed[] = "the host's was changed since the box began";

struct outcome conflict_with(const char *reason) { return (struct outcome){"conflict", reason}; }
struct outcome held_with(const char *reason) { return (struct outcome){"held", reason}; }
struct outcome refused_with(const char *reason) { return (struct outcome){"refused", reason}; }
bool is_applied(const struct outcome *outcome) { return outcome->word == applied.word; }

struct outcome refused_by_kernel(void) {
  switch (errno) {
    case ELNRNG: return refused_with("it is a link that leads out of the directory");
    case ENOENT: return refused_with("the directory that it is in is not there");
    case ELOOP: return refused_with("a link is on the way in the host's directory");
    case ENOTDIR: return refused_with("what is on the way in the host's directory is no directory");
    case EACCES:
    case EPERM: return refused_with("the host does not let this user write there");
    case EROFS: return refused_with("the host's file system is read-only");
    case ENOSPC:
    case EDQUOT: return refused_with("the disk is full");
    case EBUSY: return refused_with("the box is writing it, or something is mounted there");
    case EFBIG: return refused_with("it is next to nothing but holes, or longer than the disk takes");
    case ENOTEMPTY:
    case EEXIST: return refused_with("something else came there meanwhile");
    default: return refused_with("the host's kernel refuses it");
  }
}

void stage_name(struct home *home, char name[STAGED_BYTES]) {
  snprintf(name, STAGED_BYTES, STAGE "/%d-%llx-%u", getpid(), (unsigned long long)now_us(), home->count++);
}

static int rename_how(int from, const char *name, int to, const char *as, unsigned how) {
  return (int)syscall(SYS_renameat2, from, name, to, as, how);
}

/* Some file systems have only the plain rename. */
static bool is_unknown_how(void) { return errno == EINVAL || errno == ENOSYS; }

/* ---- judging ---- */

/* Whoever has it open for writing goes on where it lies then. Where the kernel can't say, nobody has. */
static bool is_being_written(int directory, const char *name) {
  cleanup_fd file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return false;
  (void)signal(SIGIO, SIG_IGN); /* Somebody may open it in this moment, which is told to the lease's holder. */
  if (fcntl(file, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  (void)fcntl(file, F_SETLEASE, F_UNLCK);
  return false;
}

struct look_below {
  struct home *home;
  const struct spot *spot;
  dev_t device;
  struct outcome found;
};

static struct outcome judge_below(const struct look_below *look, int directory, const char *below, const char *name) {
  char path[REQUEST_PATH_BYTES_MAX + 1];
  struct stat status;
  bool is_top = strcmp(below, ".") == 0;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return conflict_with(changed);
  if (S_ISDIR(status.st_mode) && status.st_dev != look->device) return refused_with("another file system is mounted in it");
  if (!look->home->takes_held && strcasecmp(name, ".git") == 0) return held_with("a repository is in it");
  int length = snprintf(path, sizeof path, "%s/%s%s%s", look->spot->path, is_top ? "" : below, is_top ? "" : "/", name);
  /* A longer one was never brought by us. */
  bool is_long = length < 0 || (size_t)length >= sizeof path;
  return journal_says_changed(look->home, is_long ? "" : path, &status) ? conflict_with(changed) : none;
}

static int visit_below(void *context, int directory, const char *below) {
  struct look_below *look = context;
  cleanup_fd again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = again < 0 ? NULL : fdopendir(again);
  if (entries == NULL) return -1;
  (void)take_fd(&again);
  for (struct dirent *entry; look->found.word == NULL && (entry = readdir(entries)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    look->found = judge_below(look, directory, below, entry->d_name);
  }
  closedir(entries);
  errno = ECANCELED;
  return look->found.word == NULL ? 0 : -1;
}

/* All that goes with a directory. */
static struct outcome why_not_below(struct home *home, const struct spot *spot, int directory, const char *name) {
  struct fault fault = {0};
  cleanup_fd top = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct look_below look = {.home = home, .spot = spot, .device = spot->was.st_dev};
  const struct tree_visitor visitor = {visit_below, &look};
  if (top >= 0 && tree_each_directory(top, &visitor, &fault) == 0) return none;
  return look.found.word != NULL ? look.found : conflict_with("what is in it can't be looked at, and may have been changed");
}

struct outcome why_not_replaced(struct home *home, const struct spot *spot) {
  if (!spot->is_there) return none;
  if (S_ISDIR(spot->was.st_mode)) return why_not_below(home, spot, spot->parent, spot->name);
  return journal_says_changed(home, spot->path, &spot->was) ? conflict_with(changed) : none;
}

/* What was taken away, against what was judged. */
static struct outcome why_not_taken(struct home *home, const struct spot *spot, int directory, const char *name) {
  struct stat is;
  const struct stat *was = &spot->was;
  if (home->changed_us == 0 && !S_ISDIR(was->st_mode)) return none;
  if (fstatat(directory, name, &is, AT_SYMLINK_NOFOLLOW) != 0 || is.st_ino != was->st_ino || is.st_mode != was->st_mode) {
    return conflict_with(changed);
  }
  if (S_ISDIR(is.st_mode)) return why_not_below(home, spot, directory, name);
  bool has_same_bytes = is.st_size == was->st_size && is.st_mtim.tv_sec == was->st_mtim.tv_sec && is.st_mtim.tv_nsec == was->st_mtim.tv_nsec;
  if (!has_same_bytes) return conflict_with(changed);
  return S_ISREG(is.st_mode) && is_being_written(directory, name) ? conflict_with("a program of the host is writing it") : none;
}

static void discard(const struct home *home, int directory, const char *name) {
  struct fault fault = {0};
  if (unlinkat(directory, name, 0) == 0 || unlinkat(directory, name, AT_REMOVEDIR) == 0 || directory != home->upper) return;
  (void)make_directories(home->upper, "trash", false);
  (void)tree_remove(home->upper, name, &fault); /* What is left of it goes with the box. */
}

/* ---- placing ---- */

/* Somebody may have replaced ours meanwhile: then his newest stays. False where what was taken away still lies in the stage. */
static bool give_back(const struct spot *spot, int directory, const char *staged, ino_t ours) {
  struct stat status;
  if (rename_how(directory, staged, spot->parent, spot->name, EXCHANGE) != 0) {
    return errno == ENOENT && rename_how(directory, staged, spot->parent, spot->name, NO_REPLACE) == 0;
  }
  if (fstatat(directory, staged, &status, AT_SYMLINK_NOFOLLOW) != 0 || status.st_ino == ours) return true;
  return rename_how(directory, staged, spot->parent, spot->name, EXCHANGE) == 0;
}

static struct outcome place_anew(const struct spot *spot, int directory, const char *staged) {
  if (rename_how(directory, staged, spot->parent, spot->name, NO_REPLACE) == 0) return applied;
  if (errno == EEXIST) return conflict_with(changed);
  struct stat status;
  if (is_unknown_how() && fstatat(spot->parent, spot->name, &status, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT &&
      renameat(directory, staged, spot->parent, spot->name) == 0) {
    return applied;
  }
  return errno == EXDEV ? none : refused_by_kernel();
}

/* A file for a file; where kinds differ there is a moment with neither, which only such file systems have. */
static struct outcome place_plainly(struct home *home, const struct spot *spot, int directory, const char *staged) {
  struct stat is;
  if (fstatat(directory, staged, &is, AT_SYMLINK_NOFOLLOW) != 0) return refused_by_kernel();
  bool is_alike = !S_ISDIR(is.st_mode) && !S_ISDIR(spot->was.st_mode);
  struct outcome why_not = why_not_taken(home, spot, spot->parent, spot->name);
  if (why_not.word != NULL) return why_not;
  if (!is_alike && unlinkat(spot->parent, spot->name, S_ISDIR(spot->was.st_mode) ? AT_REMOVEDIR : 0) != 0) return refused_by_kernel();
  if (renameat(directory, staged, spot->parent, spot->name) == 0) return applied;
  return errno == EXDEV && is_alike ? none : refused_by_kernel();
}

static struct outcome place_over(struct home *home, const struct spot *spot, int directory, const char *staged) {
  struct stat ours;
  if (fstatat(directory, staged, &ours, AT_SYMLINK_NOFOLLOW) != 0) return refused_by_kernel();
  if (rename_how(directory, staged, spot->parent, spot->name, EXCHANGE) != 0) {
    if (is_unknown_how()) return place_plainly(home, spot, directory, staged);
    if (errno == ENOENT) return conflict_with(changed);
    return errno == EXDEV ? none : refused_by_kernel();
  }
  struct outcome why_not = why_not_taken(home, spot, directory, staged);
  if (why_not.word == NULL) return applied;
  return give_back(spot, directory, staged, ours.st_ino) ? why_not : refused_with(kept);
}

struct outcome place_staged(struct home *home, const struct spot *spot, int directory, const char *staged) {
  struct outcome outcome = spot->is_there ? place_over(home, spot, directory, staged) : place_anew(spot, directory, staged);
  if (outcome.word != NULL && outcome.reason != kept) discard(home, directory, staged);
  return outcome;
}

/* ---- removing ---- */

/* On another file system than the box: looked at once more, right before it goes. */
static struct outcome remove_there(struct home *home, const struct spot *spot) {
  if (S_ISDIR(spot->was.st_mode)) return refused_with("a directory on another file system than the box is removed by hand");
  struct outcome why_not = why_not_taken(home, spot, spot->parent, spot->name);
  if (why_not.word != NULL) return why_not;
  return unlinkat(spot->parent, spot->name, 0) == 0 ? applied : refused_by_kernel();
}

struct outcome remove_spot(struct home *home, const struct spot *spot) {
  char staged[STAGED_BYTES];
  struct outcome why_not = why_not_replaced(home, spot);
  if (why_not.word != NULL) return why_not;
  if (S_ISDIR(spot->was.st_mode) && unlinkat(spot->parent, spot->name, AT_REMOVEDIR) == 0) return applied;
  stage_name(home, staged);
  if (renameat(spot->parent, spot->name, home->upper, staged) != 0) {
    return errno == EXDEV ? remove_there(home, spot) : refused_by_kernel();
  }
  why_not = why_not_taken(home, spot, home->upper, staged);
  /* Where something new has its name by now that is the newer one. */
  if (why_not.word != NULL && (rename_how(home->upper, staged, spot->parent, spot->name, NO_REPLACE) == 0 || errno != EEXIST)) return why_not;
  discard(home, home->upper, staged);
  return why_not.word != NULL ? why_not : applied;
}
