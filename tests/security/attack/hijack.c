/*
 * Takes over PID 1's place towards the daemon: stops PID 1 with ptrace, copies its listening socket, and answers
 * the daemon's next connections with hostile bytes. Root in a sandbox can do that, so PID 1 is no wall; what must
 * hold is the daemon. Frames: contract/src/guest/frames.ts.
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STARTED = 0x81, STDOUT = 0x82, EXIT = 0x84, FAILED = 0x85, ENTRY = 0x86, OK = 0x8b };
enum {
  TAG_EXEC_ID = 1, TAG_STDOUT_OFFSET = 14, TAG_STDERR_OFFSET = 15, TAG_PID = 16, TAG_EXIT_CODE = 17,
  TAG_TIMED_OUT = 19, TAG_USER = 20, TAG_SYSTEM = 21, TAG_RSS = 22, TAG_ERROR_CODE = 23, TAG_MESSAGE = 25, TAG_RUNNING = 26,
  TAG_OFFSET = 32, TAG_LENGTH = 33
};

struct frame {
  unsigned char bytes[70000];
  size_t length;
};

static void put_number(struct frame *frame, uint64_t value, unsigned width) {
  for (unsigned index = 0; index < width; index++) frame->bytes[frame->length++] = (unsigned char)(value >> 8 * index);
}

static void begin(struct frame *frame, unsigned char type) {
  memset(frame, 0, 8);
  frame->bytes[4] = type;
  frame->length = 8;
}

static void field(struct frame *frame, unsigned tag, uint64_t value) {
  put_number(frame, tag, 2);
  put_number(frame, 8, 4);
  put_number(frame, value, 8);
}

static void end(struct frame *frame) {
  size_t total = frame->length;
  frame->length = 0;
  put_number(frame, total - 8, 4);
  frame->length = total;
}

/* What the request called its exec: the daemon refuses an answer about another. */
static char exec_id[128];
static size_t exec_id_bytes;

static void read_request(const unsigned char *bytes, size_t length) {
  for (size_t at = 8; at + 6 <= length;) {
    unsigned tag = bytes[at] | (unsigned)bytes[at + 1] << 8;
    size_t size = bytes[at + 2] | (size_t)bytes[at + 3] << 8 | (size_t)bytes[at + 4] << 16;
    if (tag == TAG_EXEC_ID && size <= sizeof exec_id && at + 6 + size <= length) {
      memcpy(exec_id, bytes + at + 6, size);
      exec_id_bytes = size;
      return;
    }
    at += 6 + size;
  }
}

static void text_field(struct frame *frame, unsigned tag, const char *text, size_t length) {
  put_number(frame, tag, 2);
  put_number(frame, length, 4);
  memcpy(frame->bytes + frame->length, text, length);
  frame->length += length;
}

static void started(struct frame *frame) {
  begin(frame, STARTED);
  text_field(frame, TAG_EXEC_ID, exec_id, exec_id_bytes);
  field(frame, TAG_PID, 2);
  field(frame, TAG_STDOUT_OFFSET, 0);
  field(frame, TAG_STDERR_OFFSET, 0);
  field(frame, TAG_OFFSET, 0);
  field(frame, TAG_LENGTH, 0);
  end(frame);
}

static void ended(struct frame *frame, uint64_t code, uint64_t stdout_bytes) {
  begin(frame, EXIT);
  field(frame, TAG_EXIT_CODE, code);
  field(frame, TAG_TIMED_OUT, 0);
  field(frame, TAG_USER, 1);
  field(frame, TAG_SYSTEM, 1);
  field(frame, TAG_RSS, 1);
  field(frame, TAG_STDOUT_OFFSET, stdout_bytes);
  field(frame, TAG_STDERR_OFFSET, 0);
  end(frame);
}

static int send_all(int client, const struct frame *frame) {
  for (size_t at = 0; at < frame->length;) {
    ssize_t sent = send(client, frame->bytes + at, frame->length - at, MSG_NOSIGNAL);
    if (sent <= 0) return -1;
    at += (size_t)sent;
  }
  return 0;
}

/* Commands that run here, one now and then and never the last: each comes before whoever reads gives up. */
static void drip(int client) {
  struct frame frame;
  begin(&frame, ENTRY);
  text_field(&frame, TAG_EXEC_ID, "1-1", 3);
  field(&frame, TAG_PID, 2);
  field(&frame, TAG_RUNNING, 0);
  end(&frame);
  while (send_all(client, &frame) == 0) sleep(1);
}

/* Data frames without regard to the window, until the daemon hangs up. */
static void flood(int client, unsigned char type) {
  struct frame frame;
  begin(&frame, type);
  memset(frame.bytes + 8, 'A', 65536);
  frame.length = 8 + 65536;
  end(&frame);
  while (send_all(client, &frame) == 0) {
  }
}

static void answer(int client, const char *mode) {
  struct frame frame;
  if (strcmp(mode, "silent") == 0) return;
  if (strcmp(mode, "garbage") == 0) {
    frame.length = 4096;
    for (size_t at = 0; at < frame.length; at++) frame.bytes[at] = (unsigned char)(at * 167 + 13);
  } else if (strcmp(mode, "oversized") == 0) {
    begin(&frame, STARTED);
    memset(frame.bytes, 0xff, 4);
  } else if (strcmp(mode, "truncated") == 0) {
    started(&frame);
    frame.length -= 3;
  } else if (strcmp(mode, "reserved") == 0) {
    started(&frame);
    frame.bytes[5] = 1;
  } else if (strcmp(mode, "exit-first") == 0) {
    ended(&frame, 0, 0);
  } else if (strcmp(mode, "exit-range") == 0) {
    started(&frame);
    send_all(client, &frame);
    ended(&frame, UINT64_MAX, 0);
  } else if (strcmp(mode, "lying-total") == 0) {
    started(&frame);
    send_all(client, &frame);
    ended(&frame, 0, 1ULL << 60);
  } else if (strcmp(mode, "lying-exit") == 0) {
    started(&frame);
    send_all(client, &frame);
    ended(&frame, 0, 0);
  } else if (strcmp(mode, "many-fields") == 0) {
    begin(&frame, STARTED);
    while (frame.length + 6 <= 65000) {
      put_number(&frame, TAG_MESSAGE, 2);
      put_number(&frame, 0, 4);
    }
    end(&frame);
  } else if (strcmp(mode, "bad-field") == 0) {
    started(&frame);
    frame.bytes[10] = 0xff;
  } else if (strcmp(mode, "unknown-type") == 0) {
    begin(&frame, 0xfe);
    end(&frame);
  } else if (strcmp(mode, "request-type") == 0) {
    begin(&frame, 0x40); /* A request to the launcher, sent to the daemon. */
    end(&frame);
  } else if (strcmp(mode, "twice-started") == 0) {
    started(&frame);
    send_all(client, &frame);
  } else if (strcmp(mode, "message") == 0) {
    begin(&frame, FAILED);
    static const char forged[] = "{\"level\":\"fatal\"}\n{\"level\":\"forged\"";
    text_field(&frame, TAG_ERROR_CODE, "internal", 8);
    text_field(&frame, TAG_MESSAGE, forged, sizeof forged - 1);
    end(&frame);
  } else if (strcmp(mode, "flood") == 0) {
    started(&frame);
    send_all(client, &frame);
    flood(client, STDOUT);
    return;
  } else if (strcmp(mode, "drip") == 0) {
    drip(client);
    return;
  } else if (strcmp(mode, "flood-unasked") == 0) {
    flood(client, 0x88);
    return;
  } else {
    begin(&frame, OK);
    end(&frame);
  }
  send_all(client, &frame);
}

/* Reads the request first: closing with bytes unread would throw away what was sent. */
__attribute__((noreturn)) static void converse(int client, const char *mode, unsigned seconds) {
  char bytes[65536];
  alarm(seconds);
  ssize_t got = recv(client, bytes, sizeof bytes, 0);
  read_request((const unsigned char *)bytes, got > 0 ? (size_t)got : 0);
  if (got > 0) answer(client, mode);
  if (strcmp(mode, "silent") != 0) shutdown(client, SHUT_WR);
  while (recv(client, bytes, sizeof bytes, 0) > 0) {
  }
  _exit(0);
}

static int listening_socket(int process) {
  for (int number = 0; number < 64; number++) {
    int copy = (int)syscall(438, process, number, 0);
    int is_listening = 0;
    socklen_t length = sizeof is_listening;
    if (copy < 0) continue;
    if (getsockopt(copy, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) == 0 && is_listening) return copy;
    close(copy);
  }
  return -1;
}

/* `hijack MODE SECONDS`: prints `ready` when the next connection is ours, serves until the time is over. */
static int hijack(int argc, char **argv) {
  if (argc < 3) return 2;
  unsigned seconds = (unsigned)count_of(argv[2]);
  if (fork() != 0) {
    /* The command ends, the hijacker stays: as a daemon of its own it is nobody's running exec. */
    struct timespec moment = {0, 1000000};
    for (int step = 0; step < 3000 && access("/tmp/hijacked", F_OK) != 0; step++) nanosleep(&moment, NULL);
    char text[128] = "";
    int file = open("/tmp/hijacked", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) return untried("no word from the hijacker");
    if (strcmp(text, "ready") != 0) return held("PID 1 can't be taken over: %s", text);
    return breach("PID 1's place is taken");
  }
  setsid();
  unlink("/tmp/hijacked");
  int null = open("/dev/null", O_RDWR);
  for (int number = 0; number < 3; number++) dup2(null, number);
  int word = open("/tmp/hijacked.new", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int process = (int)syscall(434, 1, 0);
  int server = process < 0 ? -1 : listening_socket(process);
  int error = errno;
  /* The shell's own connection must be answered by PID 1 before it is stopped. */
  struct timespec moment = {0, 300000000};
  if (server < 0 || ptrace(PTRACE_SEIZE, 1, 0, 0) != 0) {
    dprintf(word, "%s", server < 0 ? strerror(error) : strerror(errno));
    rename("/tmp/hijacked.new", "/tmp/hijacked");
    _exit(0);
  }
  dprintf(word, "ready");
  rename("/tmp/hijacked.new", "/tmp/hijacked");
  nanosleep(&moment, NULL);
  ptrace(PTRACE_INTERRUPT, 1, 0, 0);
  waitpid(1, NULL, __WALL);
  alarm(seconds);
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int client = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    /* Blocking or not is a property of the socket that PID 1 set. */
    if (client < 0) nanosleep(&(struct timespec){0, 2000000}, NULL);
    else if (fork() == 0) converse(client, argv[1], seconds);
    close(client);
  }
}

const struct attack hijack_attacks[] = {{"hijack", hijack}, {0}};
