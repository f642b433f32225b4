/*
 * Stands where a VMM stands that somebody has taken over, and sends frames through the sandbox's tap: `tapper`. Of each attempt it prints
 * `NAME heard` or `NAME silence`; of the devices that it tries to make, `NAME made` or `NAME refused`.
 *
 * `tapper weak` makes the tap itself, in a network namespace whose rules are none: what is heard there is what a wall has to keep out.
 * There somebody echoes at UDP ports 9 and 53 and listens at TCP ports 80 and 65533.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The relay is started by the first packet for it. */
enum { ETHERNET = 14, IP4 = 20, IP6 = 40, WAIT_MS = 400, RELAY_MS = 10000 };

static int tap = -1;
static uint16_t own_port = 40000;
static uint8_t own_mac[6] = {0x06, 0, 0, 0, 0, 2}, forged_mac[6] = {0x06, 9, 9, 9, 9, 9}, peer_mac[6];

struct attempt {
  const char *name;
  const char *source, *target; /* IPv6 where they have a colon */
  uint8_t protocol;
  uint16_t port;
  bool has_forged_mac;
};

static const struct attempt attempts[] = {
    {"relay-tcp", "198.18.0.3", "93.184.216.34", IPPROTO_TCP, 80, false},
    {"relay-dns", "198.18.0.3", "198.18.0.1", IPPROTO_UDP, 53, false},
    {"relay-other-mac", "198.18.0.3", "93.184.216.34", IPPROTO_TCP, 80, true},
    {"forged-source-tcp", "10.9.9.9", "93.184.216.34", IPPROTO_TCP, 80, false},
    {"forged-source-dns", "10.9.9.9", "198.18.0.1", IPPROTO_UDP, 53, false},
    {"forged-source-and-mac", "10.9.9.9", "93.184.216.34", IPPROTO_TCP, 80, true},
    {"forged-neighbour", "198.18.0.4", "198.18.0.1", IPPROTO_UDP, 53, false},
    {"datagram-world", "198.18.0.3", "93.184.216.34", IPPROTO_UDP, 9, false},
    {"datagram-inside", "198.18.0.3", "198.18.0.2", IPPROTO_UDP, 9, false},
    {"datagram-listener", "198.18.0.3", "198.18.0.2", IPPROTO_UDP, 65533, false},
    {"multicast", "198.18.0.3", "224.0.0.1", IPPROTO_UDP, 9, false},
    {"broadcast", "198.18.0.3", "255.255.255.255", IPPROTO_UDP, 9, false},
    {"ping", "198.18.0.3", "198.18.0.1", IPPROTO_ICMP, 0, false},
    {"ping-world", "198.18.0.3", "93.184.216.34", IPPROTO_ICMP, 0, false},
    {"ip6-multicast", "fe80::3", "ff02::1", IPPROTO_ICMPV6, 0, false},
    {"loopback-listener", "198.18.0.3", "127.0.0.1", IPPROTO_TCP, 65533, false},
    {"source-own", "198.18.0.2", "198.18.0.1", IPPROTO_TCP, 80, false},
    {"source-loopback", "127.0.0.1", "198.18.0.1", IPPROTO_TCP, 80, false},
};

static void check(bool is_fine, const char *what) {
  if (is_fine) return;
  perror(what);
  exit(1);
}

static int open_tun(const char *name, short kind) {
  struct ifreq wish = {.ifr_flags = kind};
  (void)snprintf(wish.ifr_name, sizeof wish.ifr_name, "%s", name);
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd >= 0 && ioctl(fd, TUNSETIFF, &wish) == 0) return fd;
  if (fd >= 0) (void)close(fd);
  return -1;
}

static uint32_t add(uint32_t sum, const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
  return sum;
}

static void put16(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

static void put_sum(uint8_t *at, uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  put16(at, ~sum & 0xffff);
}

/* A SYN, a query or any datagram, an echo request. Returns its length. */
static size_t transport(const struct attempt *attempt, uint8_t *at) {
  static const uint8_t query[] = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
  switch (attempt->protocol) {
    case IPPROTO_TCP:
      put16(at, ++own_port);
      put16(at + 2, attempt->port);
      at[12] = 5 << 4;
      at[13] = 2; /* SYN */
      put16(at + 14, 8192);
      return 20;
    case IPPROTO_UDP:
      put16(at, ++own_port);
      put16(at + 2, attempt->port);
      put16(at + 4, 8 + sizeof query);
      memcpy(at + 8, query, sizeof query);
      return 8 + sizeof query;
    default:
      at[0] = attempt->protocol == IPPROTO_ICMP ? 8 : 128;
      return 8;
  }
}

/* Everything behind the addresses is counted with them, but in ICMP of IPv4. */
static void sum_up(const struct attempt *attempt, const uint8_t *addresses, size_t address_bytes, uint8_t *at, size_t length) {
  size_t where = attempt->protocol == IPPROTO_TCP ? 16 : attempt->protocol == IPPROTO_UDP ? 6 : 2;
  uint32_t sum = attempt->protocol == IPPROTO_ICMP ? 0 : add((uint32_t)length + attempt->protocol, addresses, address_bytes);
  put_sum(at + where, add(sum, at, length));
}

static size_t frame_of(const struct attempt *attempt, uint8_t *frame) {
  bool is_ip6 = strchr(attempt->source, ':') != NULL;
  uint8_t *ip = frame + ETHERNET;
  size_t head = is_ip6 ? IP6 : IP4, length = transport(attempt, ip + head);
  memcpy(frame, peer_mac, 6);
  if (strcmp(attempt->name, "multicast") == 0) memcpy(frame, "\x01\x00\x5e\x00\x00\x01", 6);
  if (strcmp(attempt->name, "broadcast") == 0) memset(frame, 0xff, 6);
  if (is_ip6) memcpy(frame, "\x33\x33\x00\x00\x00\x01", 6);
  memcpy(frame + 6, attempt->has_forged_mac ? forged_mac : own_mac, 6);
  put16(frame + 12, is_ip6 ? 0x86dd : 0x0800);
  if (is_ip6) {
    ip[0] = 0x60;
    put16(ip + 4, (uint32_t)length);
    ip[6] = attempt->protocol;
    ip[7] = 255;
    check(inet_pton(AF_INET6, attempt->source, ip + 8) == 1 && inet_pton(AF_INET6, attempt->target, ip + 24) == 1, "address");
    sum_up(attempt, ip + 8, 32, ip + head, length);
  } else {
    ip[0] = 0x45;
    put16(ip + 2, (uint32_t)(head + length));
    ip[8] = 64;
    ip[9] = attempt->protocol;
    check(inet_pton(AF_INET, attempt->source, ip + 12) == 1 && inet_pton(AF_INET, attempt->target, ip + 16) == 1, "address");
    put_sum(ip + 10, add(0, ip, head));
    sum_up(attempt, ip + 12, 8, ip + head, length);
  }
  return ETHERNET + head + length;
}

/* Whoever asks for any address gets this machine's, as a guest would say who takes all. */
static void answer_arp(uint8_t *frame, size_t length) {
  uint8_t wanted[4];
  if (length < 42 || frame[21] != 1) return;
  memcpy(wanted, frame + 38, 4);
  memcpy(frame, frame + 6, 6);
  memcpy(frame + 6, own_mac, 6);
  frame[21] = 2;
  memcpy(frame + 32, frame + 22, 10);
  memcpy(frame + 22, own_mac, 6);
  memcpy(frame + 28, wanted, 4);
  (void)!write(tap, frame, 42);
}

static int64_t now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An answer is a packet to who asked, also one that says that nobody is there (ICMP). A reset is none: it offers nothing. */
static bool is_answer(const struct attempt *attempt, const uint8_t *frame, size_t length) {
  uint8_t source[16];
  const uint8_t *ip = frame + ETHERNET;
  bool is_ip6 = strchr(attempt->source, ':') != NULL;
  check(inet_pton(is_ip6 ? AF_INET6 : AF_INET, attempt->source, source) == 1, "address");
  /* Who asks for the way to the one who asked is about to answer. */
  if (is_ip6) return length >= ETHERNET + IP6 + 24 && frame[12] == 0x86 && ip[IP6] == 135 && memcmp(ip + IP6 + 8, source, 16) == 0;
  if (length < ETHERNET + IP4 + 8 || frame[12] != 8 || frame[13] != 0 || memcmp(ip + 16, source, 4) != 0) return false;
  bool is_own = ip[9] == attempt->protocol && ip[IP4 + 2] == own_port >> 8 && ip[IP4 + 3] == (own_port & 0xff);
  return ip[9] == IPPROTO_ICMP || (is_own && (ip[9] == IPPROTO_UDP || (ip[IP4 + 13] & 0x12) == 0x12));
}

static bool hears(const struct attempt *attempt) {
  uint8_t frame[2048] = {0};
  size_t length = frame_of(attempt, frame);
  check(write(tap, frame, length) == (ssize_t)length, "send a frame");
  int64_t until = now_ms() + (strncmp(attempt->name, "relay-", 6) == 0 ? RELAY_MS : WAIT_MS);
  while (now_ms() < until) {
    struct pollfd readable = {.fd = tap, .events = POLLIN};
    if (poll(&readable, 1, (int)(until - now_ms())) <= 0) continue;
    ssize_t got = read(tap, frame, sizeof frame);
    if (got > ETHERNET && frame[12] == 8 && frame[13] == 6) answer_arp(frame, (size_t)got);
    else if (got > 0 && is_answer(attempt, frame, (size_t)got)) return true;
  }
  return false;
}

static struct sockaddr_in named(const char *address, uint16_t port) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
  check(inet_pton(AF_INET, address, &name.sin_addr) == 1, address);
  return name;
}

static void echo(uint16_t port) {
  struct sockaddr_in any = named("0.0.0.0", port);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0, "echo");
  if (fork() != 0) return;
  for (;;) {
    char bytes[512];
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size);
    if (got >= 0) (void)sendto(fd, bytes, (size_t)got, 0, (struct sockaddr *)&from, size);
  }
}

static void listen_at(uint16_t port) {
  struct sockaddr_in any = named("0.0.0.0", port);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 8) == 0, "listen");
}

static void setting(const char *name, const char *value) {
  char path[96];
  (void)snprintf(path, sizeof path, "/proc/sys/net/%s", name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  check(fd >= 0 && write(fd, value, strlen(value)) > 0, path);
  (void)close(fd);
}

/* Addresses that the attempts aim at, and a way back to whoever they say they are. */
static void weaken(void) {
  static const char *const addresses[] = {"198.18.0.2", "198.18.0.1", "93.184.216.34"};
  check(unshare(CLONE_NEWNET) == 0, "unshare");
  tap = open_tun("tap0", IFF_TAP | IFF_NO_PI);
  int any = socket(AF_INET, SOCK_DGRAM, 0);
  check(tap >= 0, "tap0");
  for (unsigned i = 0; i < 3; i++) {
    struct ifreq wish = {0};
    struct sockaddr_in address = named(addresses[i], 0);
    (void)snprintf(wish.ifr_name, sizeof wish.ifr_name, i == 0 ? "tap0" : "tap0:%u", i);
    memcpy(&wish.ifr_addr, &address, sizeof address);
    check(ioctl(any, SIOCSIFADDR, &wish) == 0, "address");
    address = named("255.255.255.255", 0);
    memcpy(&wish.ifr_netmask, &address, sizeof address);
    check(ioctl(any, SIOCSIFNETMASK, &wish) == 0, "mask");
  }
  if (access("/proc/sys/net/ipv6", F_OK) == 0) setting("ipv6/conf/tap0/accept_dad", "0");
  const char *const links[] = {"tap0", "lo"};
  for (unsigned i = 0; i < 2; i++) {
    struct ifreq wish = {.ifr_flags = IFF_UP};
    (void)snprintf(wish.ifr_name, sizeof wish.ifr_name, "%s", links[i]);
    check(ioctl(any, SIOCSIFFLAGS, &wish) == 0, "up");
  }
  struct rtentry all = {.rt_flags = RTF_UP, .rt_dev = (char[]){"tap0"}};
  struct sockaddr_in nobody = named("0.0.0.0", 0);
  memcpy(&all.rt_dst, &nobody, sizeof nobody);
  memcpy(&all.rt_genmask, &nobody, sizeof nobody);
  check(ioctl(any, SIOCADDRT, &all) == 0, "route");
  const char *const trusting[] = {"accept_local", "route_localnet"};
  for (unsigned i = 0; i < 2; i++) {
    char name[64];
    (void)snprintf(name, sizeof name, "ipv4/conf/tap0/%s", trusting[i]);
    setting(name, "1");
  }
  setting("ipv4/conf/all/rp_filter", "0");
  setting("ipv4/conf/tap0/rp_filter", "0");
  echo(9);
  echo(53);
  echo(65533);
  listen_at(80);
  listen_at(65533);
}

int main(int argc, char **argv) {
  struct ifreq wish = {.ifr_name = "tap0"};
  if (argc == 2 && strcmp(argv[1], "weak") == 0) weaken();
  else tap = open_tun("tap0", IFF_TAP | IFF_NO_PI);
  check(tap >= 0, "tap0");
  check(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFHWADDR, &wish) == 0, "its address");
  memcpy(peer_mac, wish.ifr_hwaddr.sa_data, 6);
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    (void)printf("%s %s\n", attempts[i].name, hears(&attempts[i]) ? "heard" : "silence");
    (void)fflush(stdout);
  }
  (void)printf("another-tap %s\n", open_tun("tap1", IFF_TAP | IFF_NO_PI) >= 0 ? "made" : "refused");
  (void)printf("tunnel %s\n", open_tun("tun1", IFF_TUN | IFF_NO_PI) >= 0 ? "made" : "refused");
  (void)printf("end\n");
  (void)fflush(stdout);
  return 0;
}
