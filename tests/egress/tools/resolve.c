/* resolve NAME: what this C library's getaddrinfo says, one address per line. The tests compile it with musl. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (argc != 2) return 64;
    int error = getaddrinfo(argv[1], "80", &wanted, &found);
    if (error != 0) {
        printf("%s\n", gai_strerror(error));
        return 2;
    }
    for (struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        char text[INET6_ADDRSTRLEN] = "";
        const void *address = one->ai_family == AF_INET6
            ? (const void *)&((struct sockaddr_in6 *)(void *)one->ai_addr)->sin6_addr
            : (const void *)&((struct sockaddr_in *)(void *)one->ai_addr)->sin_addr;
        printf("%s\n", inet_ntop(one->ai_family, address, text, sizeof text));
    }
    freeaddrinfo(found);
    return 0;
}
