/* Sockets: families that reach the kernel or the wire, and servers that stand outside. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include <poll.h>

/* `socket FAMILY TYPE PROTOCOL` */
static int make_socket(int argc, char **argv) {
  if (argc < 4) return 2;
  int made = socket((int)count_of(argv[1]), (int)count_of(argv[2]), (int)count_of(argv[3]));
  if (made < 0 && errno != EPERM && errno != EACCES) {
    /* The filter says EAFNOSUPPORT, and so does a kernel without the family. */
    return held("socket: %s", strerror(errno));
  }
  return refused("socket", made);
}

static socklen_t unix_address(struct sockaddr_un *address, const char *name, int is_abstract) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  snprintf(address->sun_path + (is_abstract ? 1 : 0), sizeof address->sun_path - 1, "%s", name);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1U);
}

static int connect_unix(const char *name, int is_abstract) {
  struct sockaddr_un address;
  socklen_t length = unix_address(&address, name, is_abstract);
  int client = socket(AF_UNIX, SOCK_STREAM, 0);
  if (client < 0) return held("socket: %s", strerror(errno));
  if (connect(client, (struct sockaddr *)&address, is_abstract ? length - 0U : sizeof address) != 0) {
    return held("connect %s: %s", name, strerror(errno));
  }
  return breach("connected to %s", name);
}

static int abstract_socket(int argc, char **argv) { return argc > 1 ? connect_unix(argv[1], 1) : 2; }
static int path_socket(int argc, char **argv) { return argc > 1 ? connect_unix(argv[1], 0) : 2; }

/* `tcp ADDRESS PORT`: held when nothing answers within two seconds. */
static int connect_tcp(int argc, char **argv) {
  if (argc < 3) return 2;
  int is_six = strchr(argv[1], ':') != NULL;
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)count_of(argv[2]))};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four.sin_port};
  if (inet_pton(is_six ? AF_INET6 : AF_INET, argv[1], is_six ? (void *)&six.sin6_addr : &four.sin_addr) != 1) {
    return 2;
  }
  int client = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (client < 0) return held("socket: %s", strerror(errno));
  const void *address = is_six ? (const void *)&six : &four;
  if (connect(client, address, is_six ? sizeof six : sizeof four) != 0 && errno != EINPROGRESS) {
    return held("connect: %s", strerror(errno));
  }
  struct pollfd wait = {.fd = client, .events = POLLOUT};
  if (poll(&wait, 1, 2000) != 1) return held("connect: nobody answered");
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? breach("connected to %s port %s", argv[1], argv[2]) : held("connect: %s", strerror(error));
}

/* A way out is a route by any device but loopback: nothing is sent to find that out. */
static int find_route(int argc, char **argv) {
  struct {
    struct nlmsghdr header;
    struct rtmsg route;
    struct nlattr to;
    struct in_addr address;
  } message = {
      .header = {.nlmsg_len = sizeof message, .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST},
      .route = {.rtm_family = AF_INET, .rtm_dst_len = 32},
      .to = {.nla_len = sizeof(struct nlattr) + sizeof(struct in_addr), .nla_type = RTA_DST},
  };
  if (argc < 2 || inet_pton(AF_INET, argv[1], &message.address) != 1) return 2;
  int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (netlink < 0) return held("netlink: %s", strerror(errno));
  _Alignas(struct nlmsghdr) char answer[1024];
  if (send(netlink, &message, sizeof message, 0) < 0) return held("send: %s", strerror(errno));
  struct pollfd wait = {.fd = netlink, .events = POLLIN};
  ssize_t length = poll(&wait, 1, 2000) == 1 ? recv(netlink, answer, sizeof answer, 0) : -1;
  struct nlmsghdr *header = (struct nlmsghdr *)(void *)answer;
  if (length < (ssize_t)sizeof *header) return untried("the kernel did not answer");
  if (header->nlmsg_type != RTM_NEWROUTE) return held("no route");
  struct rtattr *at = RTM_RTA(NLMSG_DATA(header));
  for (unsigned left = (unsigned)RTM_PAYLOAD(header); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    char name[IF_NAMESIZE] = "?";
    unsigned device;
    if (at->rta_type != RTA_OIF) continue;
    memcpy(&device, RTA_DATA(at), sizeof device);
    if_indextoname(device, name);
    return strcmp(name, "lo") == 0 ? held("by loopback alone") : breach("there is a way to %s by %s", argv[1], name);
  }
  return held("a route by no device");
}

/* Adds a network device, which needs CAP_NET_ADMIN. */
static int add_link(int argc, char **argv) {
  (void)argc, (void)argv;
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
    struct nlattr info;
    struct nlattr kind;
    char name[8];
  } message = {
      .header = {.nlmsg_len = sizeof message,
                 .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
      .info = {.nla_len = sizeof(struct nlattr) * 2 + 8, .nla_type = IFLA_LINKINFO | NLA_F_NESTED},
      .kind = {.nla_len = sizeof(struct nlattr) + 7, .nla_type = IFLA_INFO_KIND},
      .name = "attack",
  };
  int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  if (netlink < 0) return held("netlink: %s", strerror(errno));
  char answer[512];
  if (send(netlink, &message, sizeof message, 0) < 0) return held("send: %s", strerror(errno));
  struct pollfd wait = {.fd = netlink, .events = POLLIN};
  if (poll(&wait, 1, 2000) != 1 || recv(netlink, answer, sizeof answer, 0) < (ssize_t)sizeof(struct nlmsghdr)) {
    return untried("the kernel did not answer");
  }
  struct nlmsgerr failure;
  memcpy(&failure, answer + sizeof(struct nlmsghdr), sizeof failure);
  errno = -failure.error;
  /* A device type that does not exist is looked up after the permission: EOPNOTSUPP is a breach. */
  return refused("a new network device", failure.error == 0 ? 0 : -1);
}

/* Interfaces other than loopback are a way out. */
static int find_interface(int argc, char **argv) {
  (void)argc, (void)argv;
  struct if_nameindex *found = if_nameindex();
  if (found == NULL) return held("interfaces: %s", strerror(errno));
  for (struct if_nameindex *one = found; one->if_index != 0; one++) {
    if (strcmp(one->if_name, "lo") != 0) return breach("there is an interface %s", one->if_name);
  }
  return held("loopback only");
}

/* System V shared memory of others, by key. */
static int shared_memory(int argc, char **argv) {
  if (argc < 2) return 2;
  int segment = shmget((key_t)count_of(argv[1]), 0, 0);
  if (segment < 0) return held("shmget: %s", strerror(errno));
  const char *text = shmat(segment, NULL, SHM_RDONLY);
  if (text == (void *)-1) return breach("the segment exists");
  return breach("shared memory says %.64s", text);
}

static void wake(int number) { (void)number; }

/* Ten minutes at most: a test that died must not leave it behind for ever. */
static void wait_to_be_ended(void) {
  signal(SIGTERM, wake);
  puts("serving");
  fflush(stdout);
  struct timespec rest = {600, 0};
  nanosleep(&rest, NULL);
}

/* `serve NAME KEY SECRET`: what another sandbox or the host has that must not be reachable. */
static int serve(int argc, char **argv) {
  if (argc < 4) return 2;
  struct sockaddr_un address;
  socklen_t length = unix_address(&address, argv[1], 1);
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (server < 0 || bind(server, (struct sockaddr *)&address, length) != 0 || listen(server, 4) != 0) return 1;
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)count_of(argv[2])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int tcp = socket(AF_INET, SOCK_STREAM, 0);
  if (tcp < 0 || bind(tcp, (struct sockaddr *)&four, sizeof four) != 0 || listen(tcp, 4) != 0) return 1;
  int segment = shmget((key_t)count_of(argv[2]), 4096, IPC_CREAT | 0666);
  if (segment < 0) return 1;
  char *text = shmat(segment, NULL, 0);
  if (text == (void *)-1) return 1;
  snprintf(text, 4096, "%s", argv[3]);
  wait_to_be_ended();
  return shmctl(segment, IPC_RMID, NULL);
}

const struct attack socket_attacks[] = {
    {"socket", make_socket},         {"connect-abstract", abstract_socket},
    {"connect-path", path_socket},   {"connect-tcp", connect_tcp},
    {"route", find_route},             {"add-link", add_link},
    {"find-interface", find_interface}, {"shared-memory", shared_memory},
    {0},
};

const struct attack servers[] = {{"serve", serve}, {0}};
