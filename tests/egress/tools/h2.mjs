// h2.mjs CONNECT-HOST :authority HOST-HEADER|- PATH [NAME=VALUE…]: an HTTP/2 request whose names may disagree.
import { connect } from 'node:http2';
const [, , host, authority, hostHeader, path, ...more] = process.argv;
const session = connect(`https://${host}`, { rejectUnauthorized: false });
const end = (text) => {
  console.log(text);
  process.exit(0);
};
session.on('error', (error) => end(error.message));
const headers = { ':path': path, ':authority': authority };
if (hostHeader !== '-') headers.host = hostHeader;
let body = '';
let trailers;
for (const pair of more) {
  const [name, value] = pair.split(/=(.*)/s);
  if (name === 'body') body = value;
  else if (name.startsWith('trailer:')) trailers = { [name.slice(8)]: value };
  else headers[name] = value;
}
if (body !== '' || trailers !== undefined) headers[':method'] = 'POST';
const stream = session.request(headers, { endStream: body === '' && trailers === undefined, waitForTrailers: trailers !== undefined });
if (trailers !== undefined) stream.on('wantTrailers', () => stream.sendTrailers(trailers));
let text = '';
stream.setEncoding('utf8');
stream.on('response', (answer) => (text += `${answer[':status']} `));
stream.on('data', (part) => (text += part));
stream.on('error', (error) => end(error.message));
stream.on('close', () => end(text));
if (body !== '' || trailers !== undefined) stream.end(body);
