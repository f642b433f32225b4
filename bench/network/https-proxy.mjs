// https-proxy.mjs DIRECTORY HOST PORT: ends TLS, reads each request and answer and writes it anew over TLS of its own, and does
// nothing else: Squash's way of proxying without its rules.
import { readFileSync } from 'node:fs';
import { Agent, createServer, request } from 'node:https';
import { pipeline } from 'node:stream';
const [, , directory, host, port] = process.argv;
const pem = (name) => readFileSync(`${directory}/${name}`);
const agent = new Agent({ keepAlive: true, ca: pem('authority.pem') });
const over = () => {};
createServer({ key: pem('server.key'), cert: pem('server.pem') }, (asked, answer) => {
  const { method, url: path, rawHeaders: headers, socket: { servername } } = asked;
  const onward = request({ agent, host, port: Number(port), servername, method, path, headers });
  onward.on('error', () => answer.destroy());
  onward.on('response', (got) => {
    answer.writeHead(got.statusCode, got.statusMessage, got.rawHeaders);
    pipeline(got, answer, over);
  });
  pipeline(asked, onward, over);
}).listen(9444, host, () => console.log('ready'));
