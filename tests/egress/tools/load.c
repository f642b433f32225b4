/*
 * load WHAT …: the same load wherever it is started, in C so that what is measured is the network and not a program.
 *
 *   serve PORT              answers: a client sends eight bytes, a number in network order, and gets as many bytes
 *   connect HOST PORT N     N times: connect, ask for one byte, close; prints the milliseconds of each
 *   transfer HOST PORT M    asks for M bytes on one connection; prints milliseconds
 *   many HOST PORT N        N connections at once, one byte on each; prints milliseconds, holds them until stdin ends
 *   again HOST PORT N       one byte, N times on one connection; prints the milliseconds of each
 *   rate HOST PORT N        one byte, N times on each of 32 connections; prints how many a second
 *   names SERVER NAME N     N questions, one after the other; prints the milliseconds of each
 *   answers SERVER NAME N   N questions, 32 at once; prints how many answers came a second
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 65536, DESCRIPTORS = 65536, AT_ONCE = 32 };

static char block[BLOCK];

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int fail(const char *what) {
    perror(what);
    exit(1);
}

static int connected(const struct addrinfo *to) {
    int end = socket(to->ai_family, SOCK_STREAM, 0);
    if (end < 0 || connect(end, to->ai_addr, to->ai_addrlen) != 0) return fail("connect");
    return end;
}

static struct addrinfo *place(const char *host, const char *port) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &wanted, &found) != 0) fail("getaddrinfo");
    return found;
}

static void ask(int end, uint64_t bytes) {
    uint64_t wire = htobe64(bytes);
    if (write(end, &wire, sizeof wire) != (ssize_t)sizeof wire) fail("write");
}

static void take(int end, uint64_t bytes) {
    while (bytes > 0) {
        ssize_t got = read(end, block, sizeof block);
        if (got <= 0) fail("read");
        bytes -= (uint64_t)got;
    }
}

static void do_connect(const struct addrinfo *to, int count) {
    for (int at = 0; at < count; at++) {
        double began = now_ms();
        int end = connected(to);
        ask(end, 1);
        take(end, 1);
        printf("%.4f\n", now_ms() - began);
        close(end);
    }
}

static void do_transfer(const struct addrinfo *to, uint64_t bytes) {
    int end = connected(to);
    ask(end, 1);
    take(end, 1);
    double began = now_ms();
    ask(end, bytes);
    take(end, bytes);
    printf("%.4f\n", now_ms() - began);
}

static void do_many(const struct addrinfo *to, int count) {
    int *ends = calloc((size_t)count, sizeof *ends);
    double began = now_ms();
    for (int at = 0; at < count; at++) {
        ends[at] = connected(to);
        /* Closed with a reset: some thousand ports in TIME_WAIT make connect() search for seconds. */
        struct linger reset = {.l_onoff = 1};
        setsockopt(ends[at], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    for (int at = 0; at < count; at++) ask(ends[at], 1);
    for (int at = 0; at < count; at++) take(ends[at], 1);
    printf("%.4f\n", now_ms() - began);
    fflush(stdout);
    while (read(0, block, sizeof block) > 0) continue;
    free(ends);
}

static void do_again(const struct addrinfo *to, int count) {
    int end = connected(to);
    for (int at = 0; at < count; at++) {
        double began = now_ms();
        ask(end, 1);
        take(end, 1);
        printf("%.4f\n", now_ms() - began);
    }
}

static void do_rate(const struct addrinfo *to, int count) {
    int ends[AT_ONCE];
    for (int at = 0; at < AT_ONCE; at++) ends[at] = connected(to);
    double began = now_ms();
    for (int round = 0; round < count; round++) {
        for (int at = 0; at < AT_ONCE; at++) ask(ends[at], 1);
        for (int at = 0; at < AT_ONCE; at++) take(ends[at], 1);
    }
    printf("%.1f\n", count * AT_ONCE * 1e3 / (now_ms() - began));
}

static unsigned char query[512] = {0, 7, 1, 0, 0, 1};

/* A socket for questions, of which each is the first bytes of `query`. */
static int asker(const char *server, const char *name, size_t *size_of_query) {
    size_t length = 12;
    for (const char *label = name; *label != '\0';) {
        size_t size = strcspn(label, ".");
        query[length++] = (unsigned char)size;
        memcpy(query + length, label, size);
        length += size;
        label += size + (label[size] == '.');
    }
    memcpy(query + length, "\0\0\1\0\1", 5);
    length += 5;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
    inet_pton(AF_INET, server, &to.sin_addr);
    int end = socket(AF_INET, SOCK_DGRAM, 0);
    struct timeval patience = {.tv_sec = 10};
    setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(end, (void *)&to, sizeof to) != 0) fail("connect");
    *size_of_query = length;
    return end;
}

static void do_names(const char *server, const char *name, int count) {
    size_t length;
    int end = asker(server, name, &length);
    for (int at = 0; at < count; at++) {
        double began = now_ms();
        if (send(end, query, length, 0) < 0) fail("send");
        if (recv(end, block, sizeof block, 0) < 0) fail("recv");
        printf("%.4f\n", now_ms() - began);
    }
}

static void do_answers(const char *server, const char *name, int count) {
    size_t length;
    int end = asker(server, name, &length);
    double began = now_ms();
    for (int asked = 0, answered = 0; answered < count; answered++) {
        for (; asked < count && asked < answered + AT_ONCE; asked++) {
            if (send(end, query, length, 0) < 0) fail("send");
        }
        if (recv(end, block, sizeof block, 0) < 0) fail("recv");
    }
    printf("%.1f\n", count * 1e3 / (now_ms() - began));
}

/* What a connection still has to be sent. */
static uint64_t owed[DESCRIPTORS];

static void serve_one(int events, int end, uint32_t what) {
    uint64_t wire = 0;
    if ((what & EPOLLIN) != 0) {
        ssize_t got = read(end, &wire, sizeof wire);
        if (got != (ssize_t)sizeof wire) {
            owed[end] = 0;
            close(end);
            return;
        }
        owed[end] += be64toh(wire);
    }
    while (owed[end] > 0) {
        size_t part = owed[end] < sizeof block ? (size_t)owed[end] : sizeof block;
        ssize_t sent = send(end, block, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0) break;
        owed[end] -= (uint64_t)sent;
    }
    struct epoll_event wanted = {.events = EPOLLIN | (owed[end] > 0 ? EPOLLOUT : 0), .data.fd = end};
    epoll_ctl(events, EPOLL_CTL_MOD, end, &wanted);
}

static void do_serve(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), events = epoll_create1(0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&at, sizeof at) != 0 || listen(listener, 4096) != 0) fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (epoll_wait(events, &event, 1, -1) != 1) continue;
        if (event.data.fd != listener) {
            serve_one(events, event.data.fd, event.events);
            continue;
        }
        int end = accept(listener, NULL, NULL);
        if (end < 0 || end >= DESCRIPTORS) {
            if (end >= 0) close(end);
            continue;
        }
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = end};
        epoll_ctl(events, EPOLL_CTL_ADD, end, &wanted);
    }
}

int main(int argc, char **argv) {
    struct rlimit files = {DESCRIPTORS, DESCRIPTORS};
    /* Where more are not granted, fewer do. */
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 3 && strcmp(what, "serve") == 0) do_serve(atoi(argv[2]));
    if (argc != 5) return 64;
    if (strcmp(what, "names") == 0) do_names(argv[2], argv[3], atoi(argv[4]));
    else if (strcmp(what, "answers") == 0) do_answers(argv[2], argv[3], atoi(argv[4]));
    else if (strcmp(what, "again") == 0) do_again(place(argv[2], argv[3]), atoi(argv[4]));
    else if (strcmp(what, "rate") == 0) do_rate(place(argv[2], argv[3]), atoi(argv[4]));
    else if (strcmp(what, "connect") == 0) do_connect(place(argv[2], argv[3]), atoi(argv[4]));
    else if (strcmp(what, "transfer") == 0) do_transfer(place(argv[2], argv[3]), strtoull(argv[4], NULL, 10));
    else if (strcmp(what, "many") == 0) do_many(place(argv[2], argv[3]), atoi(argv[4]));
    else return 64;
    return 0;
}
