/*
 * The watches of one sandbox: see watches.h. A client is who watches; a place is one directory (or file) that is watched for one
 * client. The kernel has one descriptor for each inode, which the places of several clients share.
 */
#include "init/watches.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "common/loop.h"
#include "common/scratch.h"

enum {
  NONE = -1,
  BUCKETS = 4096,
  /* What the kernel keeps of events for a client that does not read, about. */
  SEND_BUFFER_BYTES = 16384,
  /* … and what is kept here: a thousand files that come at once are no reason to lose one. */
  KEPT_BYTES_MAX = 262144,
  /* … for all clients together. */
  ALL_KEPT_BYTES_MAX = 33554432,
  FRAME_BYTES_MAX = GUEST_PATH_BYTES_MAX + 64,
  WATCHED_EVENTS = IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                   IN_EXCL_UNLINK,
};

struct client {
  struct watch socket; /* fd -1: free */
  char *root;          /* its path: a descriptor would keep what is removed from ending */
  uid_t uid;
  gid_t gid;
  bool is_recursive;
  bool has_missed; /* and is to be told so, once there is room */
  bool is_over;    /* answered with an end or an error; waits for the peer to close */
  unsigned count;
  int first, last; /* places */
  uint8_t *kept;   /* frames that the socket did not take yet */
  size_t kept_sent, kept_used, kept_room;
};

struct place {
  int descriptor; /* 0: free */
  int client;
  char *path; /* relative to the root, "" for the root itself */
  int before, behind; /* of the same client */
  int next;           /* of the same bucket, or free */
};

static struct client clients[GUEST_FILE_WATCHES_MAX];
static int clients_used; /* slots that were ever taken */
static unsigned clients_now;
static struct place places[GUEST_WATCHED_PLACES_MAX];
static int places_used, places_free = NONE;
static int buckets[BUCKETS];
static struct watch inotify;
static int inotify_failure;
static size_t all_kept;

static void client_ready(void *owner, uint32_t events);

static int *bucket_of(int descriptor) {
  return &buckets[descriptor % BUCKETS];
}

static int find(int client, int descriptor) {
  int at = *bucket_of(descriptor);
  while (at != NONE && (places[at].descriptor != descriptor || places[at].client != client)) at = places[at].next;
  return at;
}

static bool is_watched(int descriptor) {
  int at = *bucket_of(descriptor);
  while (at != NONE && places[at].descriptor != descriptor) at = places[at].next;
  return at != NONE;
}

/* Takes `path`. */
static int add_place(int client, int descriptor, char *path) {
  int at = places_free;
  if (at != NONE) places_free = places[at].next;
  else at = places_used++;
  struct client *owner = &clients[client];
  int *bucket = bucket_of(descriptor);
  places[at] = (struct place){descriptor, client, path, owner->last, NONE, *bucket};
  *bucket = at;
  if (owner->last == NONE) owner->first = at;
  else places[owner->last].behind = at;
  owner->last = at;
  owner->count++;
  return at;
}

/* `is_gone`: the kernel has forgotten the descriptor already. */
static void drop_place(int at, bool is_gone) {
  struct place *place = &places[at];
  struct client *owner = &clients[place->client];
  int *link = bucket_of(place->descriptor);
  while (*link != at) link = &places[*link].next;
  *link = place->next;
  if (place->before == NONE) owner->first = place->behind;
  else places[place->before].behind = place->behind;
  if (place->behind == NONE) owner->last = place->before;
  else places[place->behind].before = place->before;
  owner->count--;
  if (!is_gone && !is_watched(place->descriptor)) (void)inotify_rm_watch(inotify.fd, place->descriptor);
  free(place->path);
  *place = (struct place){.next = places_free};
  places_free = at;
}

static void drop_places(struct client *client) {
  while (client->first != NONE) drop_place(client->first, false);
}

static void forget_kept(struct client *client) {
  all_kept -= client->kept_room;
  free(client->kept);
  client->kept = NULL;
  client->kept_sent = client->kept_used = client->kept_room = 0;
}

/* Room for `length` more bytes behind what is kept, or NULL. */
static uint8_t *room_for(struct client *client, size_t length) {
  if (client->kept_sent > 0) {
    client->kept_used -= client->kept_sent;
    memmove(client->kept, client->kept + client->kept_sent, client->kept_used);
    client->kept_sent = 0;
  }
  size_t room = client->kept_room == 0 ? FRAME_BYTES_MAX : client->kept_room;
  while (room - client->kept_used < length) room *= 2;
  if (room > client->kept_room) {
    uint8_t *kept = all_kept - client->kept_room + room > ALL_KEPT_BYTES_MAX ? NULL : realloc(client->kept, room);
    if (kept == NULL) return NULL;
    all_kept += room - client->kept_room;
    client->kept = kept;
    client->kept_room = room;
  }
  return client->kept + client->kept_used;
}

static void drop_client(struct client *client) {
  drop_places(client);
  watch_close(&client->socket);
  free(client->root);
  forget_kept(client);
  clients_now--;
}

/* What is kept. False: the socket has no room for all of it yet. */
static bool send_kept(struct client *client) {
  while (client->kept_sent < client->kept_used) {
    ssize_t sent = send(client->socket.fd, client->kept + client->kept_sent, client->kept_used - client->kept_sent,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) return false;
    /* A peer that is gone is noticed by its hang-up. */
    client->kept_sent = sent < 0 ? client->kept_used : client->kept_sent + (size_t)sent;
  }
  forget_kept(client);
  return true;
}

/* Keeps the frame, sends what goes. Without room for it the client hears that it missed something, or the end. */
static void send_frame(struct client *client, struct frame_writer *writer) {
  size_t length = frame_finish(writer);
  uint8_t *kept = room_for(client, length);
  if (kept == NULL) {
    client->has_missed = true;
    return;
  }
  memcpy(kept, writer->buffer, length);
  client->kept_used += length;
  bool is_sent = send_kept(client);
  if (is_sent && client->is_over) (void)shutdown(client->socket.fd, SHUT_WR);
  watch_for(&client->socket, is_sent ? EPOLLRDHUP : EPOLLRDHUP | EPOLLOUT);
}

static void send_event(struct client *client, const char *change, const char *path) {
  uint8_t buffer[FRAME_BYTES_MAX];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_EVENT);
  frame_text(&writer, FIELD_CHANGE, change);
  frame_text(&writer, FIELD_PATH, path);
  send_frame(client, &writer);
}

static void tell(struct client *client, const char *change, const char *path) {
  if (client->is_over) return;
  bool has_room = !client->has_missed && client->kept_used - client->kept_sent < KEPT_BYTES_MAX;
  if (has_room) send_event(client, change, path);
  else client->has_missed = true;
}

static void answer(struct client *client, uint8_t type) {
  uint8_t buffer[FRAME_HEADER_BYTES];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, type);
  send_frame(client, &writer);
}

/* The watch is over: nothing of it is watched any more. */
static void end_with(struct client *client, const char *code, int number) {
  uint8_t buffer[128];
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  if (client->is_over) return;
  client->is_over = true;
  drop_places(client);
  frame_begin(&writer, FRAME_ERROR);
  frame_text(&writer, FIELD_ERROR_CODE, code);
  frame_integer(&writer, FIELD_ERRNO, (uint64_t)number);
  frame_text(&writer, FIELD_MESSAGE, "watch");
  send_frame(client, &writer);
}

static void end_of(struct client *client) {
  client->is_over = true;
  drop_places(client);
  answer(client, FRAME_END);
}

/* What is below the root, by its path. */
static bool path_below(char path[PATH_MAX], const struct client *client, const char *relative) {
  int length = snprintf(path, PATH_MAX, "%s%s%s", client->root, relative[0] != '\0' ? "/" : "", relative);
  return length < PATH_MAX;
}

/* Watches the root or a directory below it. Returns 0, also where it is gone already, or -1 with errno. */
static int add_directory(struct client *client, const char *relative) {
  char path[PATH_MAX];
  if (!path_below(path, client, relative)) return 0;
  uint32_t flags = (uint32_t)WATCHED_EVENTS | (relative[0] != '\0' ? IN_ONLYDIR | IN_DONT_FOLLOW : 0);
  int descriptor = inotify_add_watch(inotify.fd, path, flags);
  if (descriptor < 0) {
    bool is_gone = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG || errno == ELOOP;
    return relative[0] != '\0' && is_gone ? 0 : -1;
  }
  char *copy = strdup(relative);
  int known = find((int)(client - clients), descriptor);
  if (copy != NULL && known != NONE) { /* Moved within the tree: the newer path is the true one. */
    free(places[known].path);
    places[known].path = copy;
    return 0;
  }
  bool has_room = client->count < GUEST_WATCHED_DIRECTORIES_MAX && (places_free != NONE || places_used < GUEST_WATCHED_PLACES_MAX);
  if (copy != NULL && has_room) {
    (void)add_place((int)(client - clients), descriptor, copy);
    return 0;
  }
  if (!is_watched(descriptor)) (void)inotify_rm_watch(inotify.fd, descriptor);
  free(copy);
  errno = copy == NULL ? ENOMEM : ENOSPC;
  return -1;
}

/* `relative` and `name` as one path; false where it is too long to be opened. */
static bool join_path(char joined[GUEST_PATH_BYTES_MAX], const char *relative, const char *name) {
  int length = snprintf(joined, GUEST_PATH_BYTES_MAX, "%s%s%s", relative, relative[0] != '\0' ? "/" : "", name);
  return length > 0 && length < GUEST_PATH_BYTES_MAX;
}

static int add_children(struct client *client, const char *relative) {
  char path[PATH_MAX];
  DIR *directory = path_below(path, client, relative) ? opendir(path) : NULL;
  if (directory == NULL) return 0; /* Gone, or not a directory, or closed to this user: nothing to watch. */
  int result = 0;
  for (struct dirent *entry; result == 0 && (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    char joined[GUEST_PATH_BYTES_MAX];
    if (join_path(joined, relative, entry->d_name)) result = add_directory(client, joined);
  }
  (void)closedir(directory);
  return result;
}

/* What is in the client's directories from place `at` on. What is added stands behind the others and is reached later. */
static int add_from(struct client *client, int at) {
  for (; client->is_recursive && at != NONE; at = places[at].behind) {
    char present[GUEST_PATH_BYTES_MAX];
    (void)snprintf(present, sizeof present, "%s", places[at].path);
    if (add_children(client, present) != 0) return -1;
  }
  return 0;
}

static int add_all(struct client *client, const char *unused) {
  (void)unused;
  return add_from(client, client->first);
}

/* A directory that is new in the tree. */
static int add_tree(struct client *client, const char *relative) {
  int last = client->last;
  if (add_directory(client, relative) != 0) return -1;
  return add_from(client, last == NONE ? client->first : places[last].behind);
}

/* With the client's rights: leaving id 0 takes those past permissions from these calls, coming back returns them. */
static int add_as(struct client *client, const char *relative, int (*add)(struct client *, const char *)) {
  (void)setfsgid(client->gid);
  (void)setfsuid(client->uid);
  int result = add(client, relative);
  int failure = errno;
  (void)setfsuid(geteuid());
  (void)setfsgid(getegid());
  errno = failure;
  return result;
}

/* A directory left the tree or its place: what is below is met again where it is now. */
static void drop_tree(struct client *client, const char *relative) {
  size_t length = strlen(relative);
  for (int at = client->first, behind; at != NONE; at = behind) {
    const char *path = places[at].path;
    behind = places[at].behind;
    if (strncmp(path, relative, length) == 0 && (path[length] == '/' || path[length] == '\0')) drop_place(at, false);
  }
}

static const char *change_of(uint32_t mask) {
  if ((mask & IN_CREATE) != 0) return "created";
  if ((mask & (IN_DELETE | IN_DELETE_SELF)) != 0) return "removed";
  if ((mask & (IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF)) != 0) return "moved";
  return (mask & IN_ATTRIB) != 0 ? "attributes" : "changed";
}

static void take_event(int at, const struct inotify_event *event) {
  struct client *client = &clients[places[at].client];
  bool is_root = places[at].path[0] == '\0';
  if ((event->mask & IN_IGNORED) != 0) {
    drop_place(at, true);
    if (is_root) end_of(client);
    return;
  }
  /* A directory below tells of its own end through the one above. */
  bool is_self = (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0 || (event->len == 0 && (event->mask & IN_ATTRIB) != 0);
  if (is_self && !is_root) return;
  char path[GUEST_PATH_BYTES_MAX];
  if (event->len == 0) (void)snprintf(path, sizeof path, "%s", places[at].path);
  else if (!join_path(path, places[at].path, event->name)) return;
  bool is_tree = (event->mask & IN_ISDIR) != 0 && client->is_recursive && event->len > 0;
  if (is_tree && (event->mask & IN_MOVED_FROM) != 0) drop_tree(client, path);
  bool is_new = is_tree && (event->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
  int failure = is_new && add_as(client, path, add_tree) != 0 ? errno : 0;
  /* Whoever hears of a new directory knows that it is watched. */
  tell(client, change_of(event->mask), path);
  if (failure != 0) end_with(client, "file_failed", failure);
}

/* Whoever watches recursively finds what was made meanwhile. */
static void take_overflow(void) {
  for (int i = 0; i < clients_used; i++) {
    struct client *client = &clients[i];
    if (client->socket.fd < 0 || client->is_over) continue;
    if (add_as(client, "", add_all) != 0) end_with(client, "file_failed", errno);
    else tell(client, "overflow", "");
  }
}

static void inotify_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  static int concerned[GUEST_FILE_WATCHES_MAX];
  ssize_t got = read(inotify.fd, scratch, sizeof scratch);
  for (ssize_t at = 0; at < got;) {
    const struct inotify_event *event = (const struct inotify_event *)(const void *)(scratch + at);
    at += (ssize_t)(sizeof *event + event->len);
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
      take_overflow();
      continue;
    }
    /* Telling one client can change the table, so the places are noted first; a client has one for each descriptor. */
    int count = 0;
    for (int place = *bucket_of(event->wd); place != NONE; place = places[place].next) {
      if (places[place].descriptor == event->wd) concerned[count++] = place;
    }
    for (int i = 0; i < count; i++) {
      if (places[concerned[i]].descriptor == event->wd) take_event(concerned[i], event);
    }
  }
}

static void client_ready(void *owner, uint32_t events) {
  struct client *client = owner;
  if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
    drop_client(client);
  } else if (send_kept(client)) {
    watch_for(&client->socket, EPOLLRDHUP);
    if (client->is_over) (void)shutdown(client->socket.fd, SHUT_WR);
    bool has_missed = client->has_missed && !client->is_over;
    client->has_missed = false;
    if (has_missed) send_event(client, "overflow", "");
  }
}

void watches_start(int descriptor, int failure) {
  for (int i = 0; i < BUCKETS; i++) buckets[i] = NONE;
  inotify_failure = failure;
  watch_start(&inotify, descriptor, inotify_ready, NULL);
  if (descriptor >= 0) watch_for(&inotify, EPOLLIN);
}

unsigned watches_count(void) {
  return clients_now;
}

static struct client *take_client(void) {
  for (int i = 0; i < clients_used; i++) {
    if (clients[i].socket.fd < 0) return &clients[i];
  }
  return clients_used < GUEST_FILE_WATCHES_MAX ? &clients[clients_used++] : NULL;
}

/* The root by its descriptor: it is what the worker has found, and no file system is asked where it is. */
static int add_root(struct client *client, int root) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", root);
  char *whole = client->root;
  client->root = path;
  int result = add_as(client, "", add_directory);
  client->root = whole;
  return result;
}

void watches_add(int socket, int root, const struct watch_request *request) {
  static struct client refused; /* for one that gets its answer and nothing more */
  struct client *client = take_client();
  bool has_room = client != NULL;
  if (!has_room) client = &refused;
  *client = (struct client){.root = strdup(request->path), .uid = request->uid, .gid = request->gid,
                            .is_recursive = request->is_recursive, .first = NONE, .last = NONE};
  clients_now++;
  int bytes = SEND_BUFFER_BYTES;
  (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes); /* Else it holds what the kernel gives it. */
  watch_start(&client->socket, socket, client_ready, client);
  watch_for(&client->socket, EPOLLRDHUP);
  errno = client->root == NULL ? ENOMEM : inotify_failure;
  if (!has_room) end_with(client, "limit", EAGAIN);
  else if (errno != 0 || add_root(client, root) != 0) end_with(client, "file_failed", errno);
  else if (add_as(client, "", add_all) != 0) end_with(client, "file_failed", errno);
  else answer(client, FRAME_OK);
  close_fd(&root);
  if (!has_room) drop_client(client);
}
