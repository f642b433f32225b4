// A program as people run them in sandboxes: pages, events, large bodies, cookies, and protocols that are switched to.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const routes = {
  '/echo': (request, response, body) => {
    const { method, url, rawHeaders, httpVersion } = request;
    response.setHeader('content-type', 'application/json');
    const sha256 = createHash('sha256').update(body).digest('hex');
    response.end(JSON.stringify({ method, url, rawHeaders, httpVersion, bytes: body.length, sha256 }));
  },
  '/events': (request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    let count = 0;
    const timer = setInterval(() => response.write(`data: ${(count += 1)}\n\n`), 20);
    response.on('close', () => clearInterval(timer));
  },
  '/cookies': (request, response) => {
    response.writeHead(200, {
      'set-cookie': [
        'a=1; Domain=localhost; Path=/',
        'b=2; HttpOnly;domain = .preview.test ; Secure',
        'c=3',
        'squash_preview=stolen; Path=/',
        '__Host-squash_preview=stolen',
      ],
      'clear-site-data': '"cookies"',
      'alt-svc': 'h3=":1"',
      'x-own': 'kept',
      connection: 'x-secret, close',
      'x-secret': 'of the connection',
    });
    response.end('cookies');
  },
  '/early': (_request, response) => response.writeHead(413).end('too much'),
  '/nothing': (_request, response) => response.writeHead(204).end(),
};

const server = createServer((request, response) => {
  const [path] = request.url.split('?');
  if (path === '/early') return routes[path](request, response);
  if (path === '/large') return sendLarge(request, response);
  if (path === '/count') return count(request, response);
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const route = routes[path] ?? ((_request, other) => other.writeHead(404).end('no such page'));
    route(request, response, Buffer.concat(chunks));
  });
});

function sendLarge(request, response) {
  let left = Number(new URL(request.url, 'http://x').searchParams.get('bytes'));
  const chunk = Buffer.alloc(65_536, 0x5a);
  const more = () => {
    while (left > 0) {
      const piece = chunk.subarray(0, Math.min(left, chunk.length));
      left -= piece.length;
      if (!response.write(piece)) return;
    }
    response.off('drain', more).end();
  };
  response.on('drain', more);
  more();
}

async function count(request, response) {
  let bytes = 0;
  for await (const chunk of request) bytes += chunk.length;
  response.end(String(bytes));
}

// Says what it was asked with, then everything back.
server.on('upgrade', (request, socket, head) => {
  if (request.url === '/refuse') {
    socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nset-cookie: a=1; domain=localhost\r\n\r\nno');
    return;
  }
  socket.on('error', () => socket.destroy());
  const protocol = request.headers.upgrade;
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`);
  socket.write(`${JSON.stringify(request.rawHeaders)}\n`);
  socket.write(head);
  socket.pipe(socket);
});
server.listen(Number(process.argv[2]), '0.0.0.0');
