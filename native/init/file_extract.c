/*
 * Unpacking a tar below a directory. Every name is resolved beneath it by the kernel (RESOLVE_BENEATH): neither "..", nor an
 * absolute name, nor a symlink that the archive or anybody else has put there leads out of it. Each file takes its place whole,
 * over what stood there, but never over a directory; the archive as a whole does not: what came before it ended stays.
 *
 * Who sends it is nobody to give files away or to set set-id bits, unless the request says that owners are to be kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/scratch.h"
#include "init/file.h"
#include "init/request.h"
#include "init/tar.h"
#include "init/temporary.h"
#include "init/walk.h"

enum { DIRECTORIES_BYTES_MAX = 4194304 /* of directories whose mode and times are still to be set */ };

struct extraction {
  int socket;
  int root;
  uint64_t entries_left, bytes_left;
  uint64_t entries, bytes; /* taken */
  uint64_t keeps_owner;
  struct owner owner;
  /* What has come: a piece of the upload in `scratch`. */
  size_t at, end;
  bool is_ended;
  const char *step; /* what failed, for the answer */
};

/* The modes and times of directories that were made, set when all is in them: records of `pending`, each with its path behind it. */
struct pending {
  int64_t mtime;
  uint32_t mode;
  uint32_t path_bytes;
};

static uint8_t *directories;
static size_t directories_used;

/* The next piece. 1, 0 at the end, -1 where the peer is gone or was answered. */
static int refill(struct extraction *extraction) {
  if (extraction->is_ended) return 0;
  ssize_t got = file_receive(extraction->socket);
  if (got < 0) return -1;
  extraction->is_ended = got == 0;
  extraction->at = 0;
  extraction->end = (size_t)got;
  return got > 0;
}

/* Exactly `length` bytes. 1, 0 where the upload ended before the first, -1 with errno; EPIPE: nobody is to be answered. */
static int take(struct extraction *extraction, void *into, size_t length) {
  for (size_t done = 0; done < length;) {
    if (extraction->at == extraction->end) {
      int more = refill(extraction);
      if (more == 0 && done == 0) return 0;
      errno = more < 0 ? EPIPE : EBADMSG;
      if (more <= 0) return -1;
    }
    size_t here = extraction->end - extraction->at;
    size_t part = here < length - done ? here : length - done;
    if (into != NULL) memcpy((uint8_t *)into + done, scratch + extraction->at, part);
    extraction->at += part;
    done += part;
  }
  return 1;
}

static int take_all(struct extraction *extraction, void *into, size_t length) {
  int taken = take(extraction, into, length);
  if (taken == 0 && length > 0) errno = EBADMSG; /* The archive ends inside of an entry. */
  return taken == 1 || length == 0 ? 0 : -1;
}

static int pass_over(struct extraction *extraction, uint64_t size) {
  for (uint64_t left = size + tar_padding(size); left > 0;) {
    size_t part = left < TAR_BLOCK_BYTES ? (size_t)left : TAR_BLOCK_BYTES;
    if (take_all(extraction, NULL, part) != 0) return -1;
    left -= part;
  }
  return 0;
}

/* The content of an entry into a file, from the pieces as they come. */
static int take_content(struct extraction *extraction, int fd, uint64_t size) {
  for (uint64_t left = size; left > 0;) {
    if (extraction->at == extraction->end) {
      int more = refill(extraction);
      errno = more < 0 ? EPIPE : EBADMSG;
      if (more <= 0) return -1;
    }
    size_t here = extraction->end - extraction->at;
    size_t part = left < here ? (size_t)left : here;
    if (file_put(fd, scratch + extraction->at, part) != 0) return -1;
    extraction->at += part;
    left -= part;
  }
  return take_all(extraction, NULL, tar_padding(size));
}

/* Opens the directory `path`, making what is missing. */
static int open_made(const struct extraction *extraction, char *path) {
  cleanup_fd fd = open_below(extraction->root, path[0] == '\0' ? "." : path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
  if (fd >= 0 || errno != ENOENT) return take_fd(&fd);
  cleanup_fd above = dup(extraction->root);
  for (char *at = path; above >= 0 && at != NULL;) {
    char *slash = strchr(at, '/');
    if (slash != NULL) *slash = '\0';
    bool is_made = mkdirat(above, at, 0755) == 0;
    int next = open_below(extraction->root, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    if (next >= 0 && is_made && set_attributes(next, -1, &extraction->owner) != 0) close_fd(&next);
    close_fd(&above);
    above = next;
    if (slash != NULL) *slash = '/';
    at = slash == NULL ? NULL : slash + 1;
  }
  return take_fd(&above);
}

/* The directory in which the entry is to stand; `*name` is its name there. */
static int open_place(const struct extraction *extraction, char *path, const char **name) {
  char *slash = strrchr(path, '/');
  *name = slash == NULL ? path : slash + 1;
  if (slash == NULL) return dup(extraction->root);
  *slash = '\0';
  int fd = open_made(extraction, path);
  *slash = '/';
  return fd;
}

static mode_t mode_of(const struct extraction *extraction, const struct tar_entry *entry) {
  return (mode_t)entry->mode & (extraction->keeps_owner == 1 ? 07777 : 0777);
}

static struct owner owner_of(const struct extraction *extraction, const struct tar_entry *entry) {
  if (extraction->keeps_owner == 0) return extraction->owner;
  /* What no id can be becomes one that no file has: the kernel refuses it. */
  return (struct owner){entry->uid < UINT32_MAX ? (uid_t)entry->uid : UINT32_MAX - 1,
                        entry->gid < UINT32_MAX ? (gid_t)entry->gid : UINT32_MAX - 1};
}

static int dress(const struct extraction *extraction, int fd, const struct tar_entry *entry) {
  struct owner owner = owner_of(extraction, entry);
  struct timespec time = {.tv_sec = entry->mtime, .tv_nsec = entry->mtime_ns};
  struct timespec times[2] = {time, time};
  if (set_attributes(fd, mode_of(extraction, entry), &owner) != 0) return -1;
  (void)futimens(fd, times); /* Not of a file that was given away: its content is what counts. */
  return 0;
}

static int extract_file(struct extraction *extraction, int place, const char *name, const struct tar_entry *entry) {
  cleanup_fd fd = temporary_create(place);
  if (fd < 0) return -1;
  if (take_content(extraction, fd, entry->size) == 0 && dress(extraction, fd, entry) == 0 && close(take_fd(&fd)) == 0 &&
      temporary_keep(name, false) == 0) {
    return 0;
  }
  int failure = errno;
  temporary_remove();
  errno = failure;
  return -1;
}

/* Sets what was left for later, the deepest first. */
static int settle_directories(const struct extraction *extraction) {
  static size_t places[DIRECTORIES_BYTES_MAX / sizeof(struct pending)];
  size_t count = 0;
  struct pending pending;
  for (size_t at = 0; at < directories_used; at += sizeof pending + pending.path_bytes) {
    places[count++] = at;
    memcpy(&pending, directories + at, sizeof pending);
  }
  directories_used = 0;
  while (count > 0) {
    size_t at = places[--count];
    memcpy(&pending, directories + at, sizeof pending);
    const char *path = (const char *)directories + at + sizeof pending;
    cleanup_fd fd = open_below(extraction->root, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (fd < 0) continue; /* Somebody has moved it. */
    struct timespec times[2] = {{.tv_sec = pending.mtime}, {.tv_sec = pending.mtime}};
    if (fchmod(fd, pending.mode) != 0) return -1;
    (void)futimens(fd, times);
  }
  return 0;
}

static int extract_directory(struct extraction *extraction, int place, const char *name, const struct tar_entry *entry) {
  struct stat stat;
  if (mkdirat(place, name, 0700) != 0) {
    if (errno != EEXIST) return -1;
    /* One that is there keeps its mode and owner; a symlink to one, too. */
    cleanup_fd there = open_below(extraction->root, entry->path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    if (there >= 0 || errno == EACCES) return 0;
    if (fstatat(place, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(stat.st_mode)) return -1;
    if (unlinkat(place, name, 0) != 0 || mkdirat(place, name, 0700) != 0) return -1;
  }
  cleanup_fd fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct owner owner = owner_of(extraction, entry);
  if (fd < 0 || set_attributes(fd, -1, &owner) != 0) return -1;
  struct pending pending = {
      .mtime = entry->mtime, .mode = mode_of(extraction, entry), .path_bytes = (uint32_t)strlen(entry->path) + 1};
  if (directories == NULL) directories = malloc(DIRECTORIES_BYTES_MAX);
  if (directories == NULL) return -1;
  bool is_full = directories_used + sizeof pending + pending.path_bytes > DIRECTORIES_BYTES_MAX;
  if (is_full && settle_directories(extraction) != 0) return -1;
  memcpy(directories + directories_used, &pending, sizeof pending);
  memcpy(directories + directories_used + sizeof pending, entry->path, pending.path_bytes);
  directories_used += sizeof pending + pending.path_bytes;
  return 0;
}

/* A link or a FIFO, over what is no directory. */
static int make_special(const struct extraction *extraction, int place, const char *name, struct tar_entry *entry) {
  if (entry->type == TAR_SYMLINK) return symlinkat(entry->target, place, name);
  if (entry->type == TAR_FIFO) return mkfifoat(place, name, mode_of(extraction, entry));
  const char *source;
  cleanup_fd from = open_place(extraction, entry->target, &source);
  return from < 0 ? -1 : linkat(from, source, place, name, 0);
}

static int extract_special(const struct extraction *extraction, int place, const char *name, struct tar_entry *entry) {
  if (entry->type == TAR_HARD_LINK && (!tar_path_clean(entry->target) || entry->target[0] == '\0')) {
    errno = EXDEV;
    return -1;
  }
  if (make_special(extraction, place, name, entry) != 0) {
    if (errno != EEXIST || unlinkat(place, name, 0) != 0) return -1;
    if (make_special(extraction, place, name, entry) != 0) return -1;
  }
  struct owner owner = owner_of(extraction, entry);
  if (entry->type == TAR_HARD_LINK || (owner.uid == (uid_t)-1 && owner.gid == (gid_t)-1)) return 0;
  return fchownat(place, name, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW);
}

static bool is_content(const struct tar_entry *entry) {
  return entry->type == TAR_FILE;
}

static int extract_entry(struct extraction *extraction, struct tar_entry *entry) {
  extraction->step = "an entry's name leads elsewhere";
  errno = EXDEV;
  if (!tar_path_clean(entry->path)) return -1;
  if (!is_content(entry) && entry->type != TAR_HARD_LINK && entry->size > 0 && pass_over(extraction, entry->size) != 0) return -1;
  if (entry->path[0] == '\0') return is_content(entry) ? -1 : 0; /* The directory itself. */
  extraction->step = "too many entries or bytes";
  errno = EFBIG;
  if (extraction->entries_left == 0 || (is_content(entry) && entry->size > extraction->bytes_left)) return -1;
  extraction->entries_left--;
  extraction->entries++;
  if (is_content(entry)) {
    extraction->bytes_left -= entry->size;
    extraction->bytes += entry->size;
  }
  extraction->step = "extract";
  const char *name;
  cleanup_fd place = open_place(extraction, entry->path, &name);
  if (place < 0) return -1;
  if (is_content(entry)) return extract_file(extraction, place, name, entry);
  if (entry->type == TAR_DIRECTORY) return extract_directory(extraction, place, name, entry);
  bool is_known = entry->type == TAR_SYMLINK || entry->type == TAR_HARD_LINK || entry->type == TAR_FIFO;
  errno = EOPNOTSUPP; /* Devices, sparse files, volumes. */
  return is_known ? extract_special(extraction, place, name, entry) : -1;
}

static bool is_extension(char type) {
  return type == TAR_PAX || type == TAR_PAX_GLOBAL || type == TAR_LONG_NAME || type == TAR_LONG_TARGET;
}

static int take_extension(struct extraction *extraction, struct tar_extension *extension, const struct tar_entry *entry) {
  static char content[TAR_EXTENSION_BYTES_MAX];
  errno = EBADMSG;
  if (entry->size > sizeof content) return -1;
  if (take_all(extraction, content, (size_t)entry->size) != 0) return -1;
  if (take_all(extraction, NULL, tar_padding(entry->size)) != 0) return -1;
  enum tar_fault fault = tar_extension_parse(extension, entry->type, content, (size_t)entry->size);
  errno = fault == TAR_UNSUPPORTED ? EOPNOTSUPP : EBADMSG;
  return fault == TAR_FINE ? 0 : -1;
}

/* Up to the archive's end. Returns 0 or -1 with errno. */
static int extract_all(struct extraction *extraction) {
  static struct tar_entry entry;
  static struct tar_extension extension;
  memset(&extension, 0, sizeof extension);
  for (;;) {
    uint8_t block[TAR_BLOCK_BYTES];
    extraction->step = "this is no tar";
    answer_progress(extraction->socket);
    int taken = take(extraction, block, sizeof block);
    if (taken <= 0) return taken;
    enum tar_fault fault = tar_header_parse(block, &entry);
    if (fault == TAR_ZERO_BLOCK) return 0;
    errno = EBADMSG;
    if (fault != TAR_FINE) return -1;
    if (is_extension(entry.type)) {
      if (take_extension(extraction, &extension, &entry) != 0) return -1;
      continue;
    }
    tar_extend(&entry, &extension);
    memset(&extension, 0, sizeof extension);
    if (extract_entry(extraction, &entry) != 0) return -1;
  }
}

/* What follows the archive's end: zeros, mostly. -1 with EPIPE where nobody is to be answered. */
static int pass_over_rest(struct extraction *extraction) {
  int more;
  while ((more = refill(extraction)) > 0) continue;
  errno = EPIPE;
  return more;
}

void file_extract(int socket) {
  struct extraction extraction = {.socket = socket, .entries_left = INTEGER_MAX, .bytes_left = INTEGER_MAX};
  uint64_t create_parents = 0;
  (void)request_integer(FIELD_ENTRIES_MAX, 0, INTEGER_MAX, &extraction.entries_left); /* Every integer is in range. */
  (void)request_integer(FIELD_BYTES_MAX, 0, INTEGER_MAX, &extraction.bytes_left);
  if (!request_integer(FIELD_KEEP_OWNER, 0, 1, &extraction.keeps_owner) || !owner_of_request(&extraction.owner) ||
      !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents)) {
    answer_bad_request(socket, "keepOwner, createParents or the owner is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  if (create_parents == 1) {
    char below[GUEST_PATH_BYTES_MAX + 2];
    size_t length = strlen(path);
    memcpy(below, path, length);
    memcpy(below + length, "/", 2);
    if (length + 1 >= GUEST_PATH_BYTES_MAX || make_parents(below, &extraction.owner) != 0) {
      answer_error(socket, errno, "parent directories");
      return;
    }
  }
  cleanup_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    answer_error(socket, errno, "open");
    return;
  }
  extraction.root = root;
  int result = extract_all(&extraction);
  int failure = errno;
  int settled = settle_directories(&extraction); /* Also of what came before a failure. */
  if (result == 0 && settled != 0) {
    result = -1;
    failure = errno;
  }
  if (result == 0 && pass_over_rest(&extraction) != 0) return;
  if (result != 0) {
    if (failure != EPIPE) answer_error(socket, failure, extraction.step);
    return;
  }
  uint8_t buffer[64];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_OK);
  frame_integer(&writer, FIELD_INODES, extraction.entries);
  frame_integer(&writer, FIELD_BYTES, extraction.bytes);
  answer_writer(socket, &writer);
}
