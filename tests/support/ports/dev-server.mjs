// A development server: a page that shows a file and is told over a WebSocket when the file changes. What it was asked stands in /tmp/asked.
import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, watchFile, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

const file = '/tmp/shown';
const asked = '/tmp/asked';
writeFileSync(file, 'first');
writeFileSync(asked, '');
const sockets = new Set();

const page = `<!doctype html><title>loading</title><script>
  const socket = new WebSocket('ws://' + location.host + '/hot');
  socket.onmessage = ({ data }) => { document.title = data; };
</script>`;

function send(socket, text) {
  socket.write(Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]));
}

const server = createServer((request, response) => {
  appendFileSync(asked, `${request.method} ${request.url}\n`);
  response.writeHead(200, { 'content-type': 'text/html' });
  response.end(page);
});
server.on('upgrade', (request, socket) => {
  appendFileSync(asked, `UPGRADE ${request.url}\n`);
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
  );
  sockets.add(socket);
  socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
  send(socket, readFileSync(file, 'utf8').trim());
});
watchFile(file, { interval: 50 }, () => {
  for (const socket of sockets) send(socket, readFileSync(file, 'utf8').trim());
});
server.listen(Number(process.argv[2]));
