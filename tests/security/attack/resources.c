/*
 * Taking more than one's share. Each attack has a bound of its own, given as an argument: reaching it is the
 * breach. So a bomb stays a bomb of known size, also where nothing limits it.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const size_t MIB = 1024UL * 1024UL;

/* The allocating child may be killed; the parent says what became of it. */
static int survived(const char *what, int (*body)(long), long amount) {
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return held("fork: %s", strerror(errno));
  if (child == 0) _exit(body(amount));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return held("%s: ended by signal %d", what, WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return breach("%s: got %ld", what, amount);
  return held("%s: refused before %ld", what, amount);
}

static int touch_memory(long mebibytes) {
  for (long done = 0; done < mebibytes; done++) {
    char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 1;
    memset(block, 1, MIB);
  }
  return 0;
}

static int fill(int file, long mebibytes) {
  static char block[1024 * 1024];
  memset(block, 'x', sizeof block);
  for (long done = 0; done < mebibytes; done++) {
    for (size_t at = 0; at < sizeof block;) {
      ssize_t wrote = write(file, block + at, sizeof block - at);
      if (wrote <= 0) return 1;
      at += (size_t)wrote;
    }
  }
  return 0;
}

static int fill_memory_file(long mebibytes) {
  int file = memfd_create("bomb", 0);
  return file < 0 ? 1 : fill(file, mebibytes);
}

static int fill_shared_memory(long mebibytes) {
  for (long done = 0; done < mebibytes; done += 16) {
    int segment = shmget(IPC_PRIVATE, 16 * MIB, IPC_CREAT | 0600);
    if (segment < 0) return 1;
    char *text = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    if (text == (void *)-1) return 1;
    memset(text, 1, 16 * MIB);
  }
  return 0;
}

/* Bytes in pipes and sockets lie in kernel memory. */
static int fill_sockets(long mebibytes) {
  static char block[65536];
  size_t total = 0;
  while (total < (size_t)mebibytes * MIB) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return 1;
    int size = 8 * 1024 * 1024;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    for (ssize_t wrote = 0; (wrote = write(pair[0], block, sizeof block)) > 0;) total += (size_t)wrote;
  }
  return 0;
}

static int memory(int argc, char **argv) { return argc > 1 ? survived("memory", touch_memory, count_of(argv[1])) : 2; }
static int memory_file(int argc, char **argv) {
  return argc > 1 ? survived("memfd", fill_memory_file, count_of(argv[1])) : 2;
}
static int system_v(int argc, char **argv) {
  return argc > 1 ? survived("shm", fill_shared_memory, count_of(argv[1])) : 2;
}
static int socket_buffers(int argc, char **argv) {
  return argc > 1 ? survived("socket buffers", fill_sockets, count_of(argv[1])) : 2;
}

/* `fill PATH MEBIBYTES`: a file as large as it gets, removed again. */
static int fill_file(int argc, char **argv) {
  if (argc < 3) return 2;
  int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) return held("%s: %s", argv[1], strerror(errno));
  int failed = fill(file, count_of(argv[2]));
  int error = errno;
  off_t size = lseek(file, 0, SEEK_CUR);
  unlink(argv[1]);
  close(file);
  if (!failed) return breach("wrote %s MiB to %s", argv[2], argv[1]);
  return held("%s: %s after %lld bytes", argv[1], strerror(error), (long long)size);
}

/* A file that has no name any more still takes its room. */
static int fill_deleted(int argc, char **argv) {
  if (argc < 3) return 2;
  int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) return held("%s: %s", argv[1], strerror(errno));
  unlink(argv[1]);
  int failed = fill(file, count_of(argv[2]));
  return failed ? held("deleted file: %s", strerror(errno)) : breach("a deleted file took %s MiB", argv[2]);
}

/* A hole is free; filling it afterwards must not be. */
static int fill_sparse(int argc, char **argv) {
  if (argc < 3) return 2;
  long mebibytes = count_of(argv[2]);
  int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ftruncate(file, (off_t)((size_t)mebibytes * MIB)) != 0) return held("sparse: %s", strerror(errno));
  lseek(file, 0, SEEK_SET);
  int failed = fill(file, mebibytes);
  int error = errno;
  close(file);
  unlink(argv[1]);
  return failed ? held("sparse file: %s", strerror(error)) : breach("a sparse file took %ld MiB", mebibytes);
}

/* `files DIRECTORY COUNT`: empty files cost no bytes, only inodes. */
static int many_files(int argc, char **argv) {
  if (argc < 3) return 2;
  long count = count_of(argv[2]);
  if (mkdir(argv[1], 0700) != 0 || chdir(argv[1]) != 0) return held("%s: %s", argv[1], strerror(errno));
  long made = 0;
  int error = 0;
  for (; made < count; made++) {
    char name[32];
    snprintf(name, sizeof name, "%ld", made);
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) {
      error = errno;
      break;
    }
    close(file);
  }
  return made == count ? breach("made %ld files", made) : held("%ld files, then: %s", made, strerror(error));
}

static int many_processes(int argc, char **argv) {
  if (argc < 2) return 2;
  long count = count_of(argv[1]);
  pid_t group = getpid();
  setpgid(0, 0);
  long made = 0;
  int error = 0;
  for (; made < count; made++) {
    pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    if (child < 0) {
      error = errno;
      break;
    }
  }
  signal(SIGTERM, SIG_IGN);
  kill(-group, SIGTERM);
  while (wait(NULL) > 0) {
  }
  return made == count ? breach("%ld processes at once", made) : held("%ld processes, then: %s", made, strerror(error));
}

/* Children that double until the time is over: the classic. */
static int fork_bomb(int argc, char **argv) {
  time_t deadline = time(NULL) + (argc > 1 ? count_of(argv[1]) : 2);
  while (time(NULL) < deadline) (void)!fork();
  return held("over");
}

static void *rest(void *unused) {
  pause();
  return unused;
}

static int many_threads(int argc, char **argv) {
  if (argc < 2) return 2;
  long count = count_of(argv[1]);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 32768);
  for (long made = 0; made < count; made++) {
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, rest, NULL);
    if (error != 0) return held("%ld threads, then: %s", made, strerror(error));
  }
  return breach("%ld threads at once", count);
}

/* `descriptors KIND COUNT` */
static int many_descriptors(int argc, char **argv) {
  if (argc < 3) return 2;
  long count = count_of(argv[2]);
  for (long made = 0; made < count; made++) {
    int file = -1;
    if (strcmp(argv[1], "file") == 0) file = open("/dev/null", O_RDONLY);
    if (strcmp(argv[1], "pty") == 0) file = posix_openpt(O_RDWR | O_NOCTTY);
    if (strcmp(argv[1], "inotify") == 0) file = inotify_init1(0);
    if (strcmp(argv[1], "queue") == 0) {
      char name[32];
      snprintf(name, sizeof name, "/attack-%ld", made);
      file = mq_open(name, O_RDWR | O_CREAT, 0600, NULL);
    }
    if (file < 0) return held("%ld of %s, then: %s", made, argv[1], strerror(errno));
  }
  return breach("%ld of %s open", count, argv[1]);
}

/* `deep COUNT`: a path far longer than PATH_MAX, which a recursive walk by name can't follow. */
static int deep_directories(int argc, char **argv) {
  if (argc < 2) return 2;
  long count = count_of(argv[1]);
  for (long depth = 0; depth < count; depth++) {
    if (mkdir("d", 0700) != 0 || chdir("d") != 0) return held("depth %ld: %s", depth, strerror(errno));
  }
  return held("made %ld levels", count);
}

/* Names that are no text, and names that look like more than one line or an option. */
static int odd_names(int argc, char **argv) {
  (void)argc, (void)argv;
  static const char *const names[] = {"new\nline", "\xff\xfe\x80", "-rf", "tab\t\"quote'", "\x1b[31mred", "..."};
  for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
    int file = open(names[index], O_WRONLY | O_CREAT, 0600);
    if (file < 0) return untried("could not make name %zu: %s", index, strerror(errno));
    close(file);
  }
  return held("made all names");
}

const struct attack resource_attacks[] = {
    {"memory", memory},
    {"memory-file", memory_file},
    {"shm", system_v},
    {"socket-buffers", socket_buffers},
    {"fill", fill_file},
    {"fill-deleted", fill_deleted},
    {"fill-sparse", fill_sparse},
    {"files", many_files},
    {"processes", many_processes},
    {"fork-bomb", fork_bomb},
    {"threads", many_threads},
    {"descriptors", many_descriptors},
    {"deep", deep_directories},
    {"odd-names", odd_names},
    {0},
};
