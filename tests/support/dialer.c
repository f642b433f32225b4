/*
 * A program for inside a sandbox that does one thing to the network and prints what came of it, in one line.
 *
 *   dialer echo ADDRESS PORT BYTES     sends so many bytes, reads as many back, compares; then half-closes, reads to the end
 *   dialer half ADDRESS PORT TEXT      sends, half-closes, prints what came until the end
 *   dialer listen ADDRESS PORT         prints what came until the end or the error
 *   dialer reset ADDRESS PORT TEXT     reads a line, sends, resets
 *   dialer late ADDRESS PORT ONE TWO   reads a line, sends ONE, reads a line, sends TWO, prints what came until the end
 *   dialer hold ADDRESS PORT COUNT     so many connections at once, each echoes a number; holds all until stdin ends
 *   dialer serial ADDRESS PORT COUNT   one after the other; prints microseconds of each at the middle
 *   dialer udp ADDRESS PORT TEXT       a datagram and its answer within 3 s
 *   dialer raw                         every kind of socket that a sandbox must not have
 *   dialer bind tcp|udp PORT           whether the port can be had
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

union name {
  struct sockaddr any;
  struct sockaddr_in ip4;
  struct sockaddr_in6 ip6;
};

static socklen_t name_of(const char *address, const char *port, union name *name) {
  memset(name, 0, sizeof *name);
  if (strchr(address, ':') != NULL) {
    name->ip6.sin6_family = AF_INET6;
    name->ip6.sin6_port = htons((uint16_t)atoi(port));
    inet_pton(AF_INET6, address, &name->ip6.sin6_addr);
    return sizeof name->ip6;
  }
  name->ip4.sin_family = AF_INET;
  name->ip4.sin_port = htons((uint16_t)atoi(port));
  inet_pton(AF_INET, address, &name->ip4.sin_addr);
  return sizeof name->ip4;
}

static void fail(const char *what) {
  printf("%s: %s\n", what, strerrorname_np(errno));
  exit(1);
}

static int dial(char **words) {
  union name name;
  socklen_t length = name_of(words[0], words[1], &name);
  int fd = socket(name.any.sa_family, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, &name.any, length) != 0) fail("connect");
  return fd;
}

static void put(int fd, const char *text) {
  if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text)) fail("send");
}

static void print_rest(int fd) {
  char bytes[65536];
  unsigned long total = 0;
  for (;;) {
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got < 0) fail("recv");
    if (got == 0) break;
    total += (unsigned long)got;
    if (total < 4096) fwrite(bytes, 1, (size_t)got, stdout);
  }
  printf("|end\n");
}

static void skip_line(int fd) {
  char byte = 0;
  while (byte != '\n') {
    if (recv(fd, &byte, 1, 0) != 1) fail("line");
  }
}

static uint8_t pattern(unsigned long at) { return (uint8_t)(at * 2654435761UL >> 13); }

static void echo(int fd, unsigned long bytes) {
  static uint8_t out[65536];
  static uint8_t in[65536];
  unsigned long sent = 0;
  unsigned long received = 0;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  while (received < bytes) {
    struct pollfd waiting = {.fd = fd, .events = (short)(POLLIN | (sent < bytes ? POLLOUT : 0))};
    if (poll(&waiting, 1, 30000) != 1) fail("poll");
    if (sent < bytes && (waiting.revents & POLLOUT) != 0) {
      unsigned long piece = bytes - sent < sizeof out ? bytes - sent : sizeof out;
      for (unsigned long i = 0; i < piece; i++) out[i] = pattern(sent + i);
      ssize_t put = send(fd, out, piece, MSG_NOSIGNAL);
      if (put < 0 && errno != EAGAIN) fail("send");
      if (put > 0) sent += (unsigned long)put;
    }
    if ((waiting.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    ssize_t got = recv(fd, in, sizeof in, 0);
    if (got < 0 && errno != EAGAIN) fail("recv");
    if (got == 0) break;
    for (ssize_t i = 0; i < got; i++) {
      if (in[i] == pattern(received + (unsigned long)i)) continue;
      printf("byte %lu differs\n", received + (unsigned long)i);
      exit(1);
    }
    if (got > 0) received += (unsigned long)got;
  }
  fcntl(fd, F_SETFL, 0);
  shutdown(fd, SHUT_WR);
  printf("%lu sent %lu received ", sent, received);
  print_rest(fd);
}

static int64_t now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

struct held {
  int fd;
  bool is_sent;
};

static void hold(char **words, unsigned count) {
  union name name;
  socklen_t length = name_of(words[0], words[1], &name);
  struct held *all = calloc(count, sizeof *all);
  int loop = epoll_create1(0);
  unsigned failed = 0;
  unsigned done = 0;
  for (unsigned i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u32 = i};
    all[i].fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (all[i].fd < 0) fail("socket");
    if (connect(all[i].fd, &name.any, length) != 0 && errno != EINPROGRESS) fail("connect");
    epoll_ctl(loop, EPOLL_CTL_ADD, all[i].fd, &event);
  }
  while (done + failed < count) {
    struct epoll_event events[256];
    int ready = epoll_wait(loop, events, 256, 60000);
    if (ready <= 0) break;
    for (int i = 0; i < ready; i++) {
      struct held *one = &all[events[i].data.u32];
      uint32_t number = events[i].data.u32;
      uint32_t back = 0;
      bool is_over = (events[i].events & (EPOLLERR | EPOLLHUP)) != 0;
      if (!is_over && !one->is_sent) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
        is_over = send(one->fd, &number, sizeof number, MSG_NOSIGNAL) != sizeof number;
        one->is_sent = true;
        if (!is_over) epoll_ctl(loop, EPOLL_CTL_MOD, one->fd, &event);
      } else if (!is_over) {
        is_over = recv(one->fd, &back, sizeof back, 0) != sizeof back || back != number;
        if (!is_over) done++;
        epoll_ctl(loop, EPOLL_CTL_DEL, one->fd, NULL);
      }
      if (!is_over) continue;
      failed++;
      epoll_ctl(loop, EPOLL_CTL_DEL, one->fd, NULL);
    }
  }
  printf("%u open %u failed\n", done, count - done);
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) continue;
}

static int compare(const void *left, const void *right) {
  int64_t difference = *(const int64_t *)left - *(const int64_t *)right;
  return difference < 0 ? -1 : difference > 0;
}

static void serial(char **words, unsigned count) {
  int64_t *times = calloc(count, sizeof *times);
  for (unsigned i = 0; i < count; i++) {
    int64_t begun = now_us();
    int fd = dial(words);
    char byte = 'x';
    put(fd, "x");
    if (recv(fd, &byte, 1, 0) != 1) fail("recv");
    times[i] = now_us() - begun;
    close(fd);
  }
  qsort(times, count, sizeof *times, compare);
  printf("%lld\n", (long long)times[count / 2]);
}

static void udp(char **words) {
  union name name;
  char bytes[4096];
  socklen_t length = name_of(words[0], words[1], &name);
  int fd = socket(name.any.sa_family, SOCK_DGRAM, 0);
  struct pollfd waiting = {.fd = fd, .events = POLLIN};
  if (fd < 0 || connect(fd, &name.any, length) != 0) fail("connect");
  if (send(fd, words[2], strlen(words[2]), 0) < 0) fail("send");
  if (poll(&waiting, 1, 3000) != 1) {
    puts("silence");
    return;
  }
  ssize_t got = recv(fd, bytes, sizeof bytes, 0);
  if (got < 0) fail("recv");
  printf("%.*s\n", (int)got, bytes);
}

static void raw(void) {
  static const struct {
    const char *name;
    int family;
    int type;
    int protocol;
  } kinds[] = {{"raw4", AF_INET, SOCK_RAW, IPPROTO_ICMP}, {"raw6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
               {"raw-tcp", AF_INET, SOCK_RAW, IPPROTO_TCP}, {"ping4", AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
               {"packet", AF_PACKET, SOCK_RAW, 0},           {"netfilter", AF_NETLINK, SOCK_RAW, 12},
               {"vsock", 40, SOCK_STREAM, 0}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    int fd = socket(kinds[i].family, kinds[i].type, kinds[i].protocol);
    printf("%s:%s ", kinds[i].name, fd < 0 ? "no" : "yes");
  }
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  printf("transparent:%s ", setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof one) == 0 ? "yes" : "no");
  printf("mark:%s\n", setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof one) == 0 ? "yes" : "no");
}

static void take_port(const char *kind, const char *port) {
  union name name;
  socklen_t length = name_of("127.0.0.1", port, &name);
  int one = 1;
  int fd = socket(AF_INET, strcmp(kind, "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  if (bind(fd, &name.any, length) != 0) fail("bind");
  if (strcmp(kind, "tcp") == 0 && listen(fd, 1) != 0) fail("listen");
  puts("had");
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "";
  if (argc == 5 && strcmp(verb, "echo") == 0) echo(dial(argv + 2), strtoul(argv[4], NULL, 10));
  else if (argc == 4 && strcmp(verb, "listen") == 0) print_rest(dial(argv + 2));
  else if (argc == 5 && strcmp(verb, "hold") == 0) hold(argv + 2, (unsigned)atoi(argv[4]));
  else if (argc == 5 && strcmp(verb, "serial") == 0) serial(argv + 2, (unsigned)atoi(argv[4]));
  else if (argc == 5 && strcmp(verb, "udp") == 0) udp(argv + 2);
  else if (argc == 2 && strcmp(verb, "raw") == 0) raw();
  else if (argc == 4 && strcmp(verb, "bind") == 0) take_port(argv[2], argv[3]);
  else if (argc == 5 && strcmp(verb, "half") == 0) {
    int fd = dial(argv + 2);
    put(fd, argv[4]);
    shutdown(fd, SHUT_WR);
    print_rest(fd);
  } else if (argc == 5 && strcmp(verb, "reset") == 0) {
    struct linger hard = {.l_onoff = 1};
    int fd = dial(argv + 2);
    skip_line(fd);
    put(fd, argv[4]);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    puts("reset");
  } else if (argc == 6 && strcmp(verb, "late") == 0) {
    int fd = dial(argv + 2);
    skip_line(fd);
    put(fd, argv[4]);
    skip_line(fd);
    put(fd, argv[5]);
    print_rest(fd);
  } else {
    puts("usage");
    return 2;
  }
  return 0;
}
