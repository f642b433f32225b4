// tls-proxy.mjs DIRECTORY HOST PORT: ends TLS and begins it anew, and does nothing else: what reading TLS costs in Node.
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:tls';
const [, , directory, host, port] = process.argv;
const pem = (name) => readFileSync(`${directory}/${name}`);
const ca = pem('authority.pem');
createServer({ key: pem('server.key'), cert: pem('server.pem'), ALPNProtocols: ['http/1.1'] }, (near) => {
  const far = connect({ host, port: Number(port), servername: near.servername, ca, ALPNProtocols: ['http/1.1'] });
  near.on('error', () => far.destroy());
  far.on('error', () => near.destroy());
  near.pipe(far).pipe(near);
}).listen(9443, '127.0.0.1', () => console.log('ready'));
