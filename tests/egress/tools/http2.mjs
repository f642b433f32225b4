// http2.mjs URL [AUTHORIZATION]: the same over one HTTP/2 connection, with two requests at once on it.
import { connect } from 'node:http2';
const [, , text, authorization] = process.argv;
const url = new URL(text);
const session = connect(url.origin);
session.on('error', (error) => {
  console.log(error.message);
  process.exit(35);
});
const ask = () =>
  new Promise((resolve) => {
    const stream = session.request({ ':path': url.pathname + url.search, ...(authorization && { authorization }) });
    let status = 0;
    let body = '';
    stream.setEncoding('utf8');
    stream.on('response', (headers) => (status = headers[':status']));
    stream.on('data', (part) => (body += part));
    stream.on('error', (error) => resolve({ status: 0, body: error.message }));
    stream.on('end', () => resolve({ status, body }));
  });
const answers = await Promise.all([ask(), ask()]);
for (const { status, body } of answers) console.log(status, body);
session.close();
process.exitCode = answers.every(({ status }) => status === 200) ? 0 : 22;
