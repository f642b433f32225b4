// Ports that answer what no server should; each does one thing to whoever connects.
import { createServer } from 'node:net';

const ok = 'HTTP/1.1 200 OK\r\n';
const behaviours = {
  // A greeting of another protocol.
  9001: (socket) => socket.write('SSH-2.0-OpenSSH_9.2p1 Debian\r\n'),
  // The head of an answer that never ends, as fast as it is read.
  9002: (socket) => flood(socket, ok, 'x-filler: ' + 'a'.repeat(8_000) + '\r\n'),
  // One header that never ends.
  9003: (socket) => flood(socket, `${ok}x-filler: `, 'a'.repeat(65_536)),
  // Two lengths.
  9004: (socket) => socket.end(`${ok}content-length: 3\r\ncontent-length: 4\r\n\r\nabcd`),
  // A length and chunks.
  9005: (socket) => socket.end(`${ok}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
  // Two answers to one question.
  9006: (socket) => socket.end(`${ok}content-length: 2\r\n\r\nok${ok}content-length: 4\r\n\r\nevil`),
  // Less than it said.
  9007: (socket) => socket.end(`${ok}content-length: 100\r\n\r\nshort`),
  // Switches without being asked to.
  9008: (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
  // Closes at once.
  9009: (socket) => socket.end(),
  // Header lines that end a head early where a reader is careless.
  9010: (socket) => socket.end(`${ok}x-a: 1\rset-cookie: a=1\r\n\r\n`),
  // A body without end, as fast as it is read.
  9011: (socket) => flood(socket, `${ok}content-type: text/plain\r\n\r\n`, 'z'.repeat(65_536)),
  // Drips a head, a byte at a time.
  9012: (socket) => {
    let at = 0;
    const timer = setInterval(() => socket.write('HTTP/1.1 200 OK\r\nx: '[at++] ?? 'a'), 50);
    socket.on('close', () => clearInterval(timer));
  },
  // Informs without end, and never answers.
  9013: (socket) => flood(socket, '', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'),
  // Reads no more of what it is sent.
  9014: (socket) => socket.pause(),
};

function flood(socket, beginning, piece) {
  socket.write(beginning);
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', more);
  more();
}

for (const [port, behave] of Object.entries(behaviours)) {
  createServer((socket) => {
    socket.on('error', () => socket.destroy());
    // It reads what it was asked, as far as it comes at once.
    socket.once('data', () => behave(socket));
  }).listen(Number(port), '127.0.0.1');
}
