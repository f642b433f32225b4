/* The thread that starts commands: see fork_thread.h. */
#include "init/fork_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/loop.h"
#include "init/machine.h"

enum { STACK_BYTES = 65536, LOOK_NS = 5000000 };

static bool is_made;
static void (*wanted_child)(void);
static atomic_int is_wanted;
static atomic_bool is_busy;
static void (*over)(void);
static bool is_untold; /* that it is over */
/* An eventfd that is never read: each write is an edge. */
static struct watch done = {.fd = -1};
/* 0 until the kernel has put the child's number here, or the thread a negative errno. */
static atomic_int begun;

static void wait_while(atomic_int *word, int value, const struct timespec *longest) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, longest, NULL, 0);
}

static void wake(atomic_int *word) {
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A call in the frame of who makes it: the C library's function would return in the child too, whose next call then overwrites where the parent returns to. */
static inline __attribute__((always_inline)) long call(long number, uintptr_t first, uintptr_t second, uintptr_t third) {
#if defined(__x86_64__)
  register uintptr_t fourth __asm__("r10") = 0;
  register uintptr_t fifth __asm__("r8") = 0;
  long answer;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                   : "rcx", "r11", "memory");
  return answer;
#elif defined(__aarch64__)
  register long which __asm__("x8") = number;
  register uintptr_t answer __asm__("x0") = first;
  register uintptr_t with1 __asm__("x1") = second;
  register uintptr_t with2 __asm__("x2") = third;
  register uintptr_t with3 __asm__("x3") = 0;
  register uintptr_t with4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(answer) : "r"(which), "r"(with1), "r"(with2), "r"(with3), "r"(with4) : "memory");
  return (long)answer;
#else
#error "no such call for this processor yet"
#endif
}

/* Only this frame is the parent's and the child's, and the child does not return to it. Returns the child's number or a negative errno. */
static __attribute__((noinline)) long share(void (*child)(void)) {
  const uint64_t flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID;
  struct clone_args how = {.flags = flags | CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = MACHINE_GROUP};
  how.parent_tid = (uintptr_t)&begun;
  long pid = machine_is() ? call(SYS_clone3, (uintptr_t)&how, sizeof how, 0) : call(SYS_clone, flags | SIGCHLD, 0, (uintptr_t)&begun);
  if (pid != 0) return pid;
  wake(&begun);
  child();
  _exit(127);
}

/* In a test program the child has marked parts of the stack that both have, and never comes back from there. */
static void forget_marks(void) {
#ifdef __SANITIZE_ADDRESS__
  void __asan_handle_no_return(void);
  __asan_handle_no_return();
#endif
}

static void *run(void *unused) {
  (void)prctl(PR_SET_NAME, "squash-start");
  (void)unused;
  for (;;) {
    while (is_wanted == 0) wait_while(&is_wanted, 0, NULL);
    is_wanted = 0;
    long pid = share(wanted_child);
    forget_marks();
    if (pid < 0) {
      begun = (int)pid;
      wake(&begun);
    }
    is_busy = false;
    ssize_t ignored = write(done.fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
  }
  return NULL;
}

static void tell(void) {
  if (is_busy || !is_untold) return;
  is_untold = false;
  over();
}

static void done_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  tell();
}

static bool open_done(void) {
  if (done.is_added) return true;
  if (done.fd < 0) watch_start(&done, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), done_ready, NULL);
  watch_for(&done, EPOLLIN | EPOLLET);
  return done.is_added;
}

/* Whether the kernel gives memory whose process changes its user to every program of that user. */
static bool user_change_opens_memory(void) {
  char value = '0';
  cleanup_fd fd = open("/proc/sys/fs/suid_dumpable", O_RDONLY | O_CLOEXEC);
  ssize_t ignored = fd < 0 ? 0 : read(fd, &value, 1);
  (void)ignored;
  return value == '1';
}

void fork_thread_tell(void (*told)(void)) { over = told; }

void fork_thread_prepare(void) {
  if (is_made || user_change_opens_memory()) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t small;
  pthread_t thread;
  if (!open_done() || prctl(PR_SET_DUMPABLE, 0) != 0 || pthread_attr_init(&small) != 0) return;
  /* The child has these until it is ready for them. */
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  is_made = pthread_attr_setstacksize(&small, STACK_BYTES) == 0 && pthread_create(&thread, &small, run, NULL) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&small);
  if (is_made) (void)pthread_detach(thread);
}

bool fork_thread_is_free(void) {
  if (!is_made || is_busy) return false;
  tell(); /* Before the next one is started: it may end in another way. */
  return true;
}

pid_t fork_thread_start(void (*child)(void)) {
  /* Somebody in the sandbox may have stopped or ended the child before it could wake us. */
  const struct timespec longest = {.tv_nsec = LOOK_NS};
  wanted_child = child;
  begun = 0;
  is_busy = is_untold = true;
  is_wanted = 1;
  wake(&is_wanted);
  while (begun == 0) wait_while(&begun, 0, &longest);
  int pid = begun;
  if (pid > 0) return pid;
  errno = -pid;
  return -1;
}
