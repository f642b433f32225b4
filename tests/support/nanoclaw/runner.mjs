/**
 * An agent runner to the protocol of NanoClaw's version 1, as its own is: reads its input to the end, polls `/workspace/ipc/input` while its
 * query is open, prints results between markers, and ends at `_close`. In place of a model it does what a prompt says: `do:` and a
 * function's text in base64, whose value is the answer.
 */
import fs from 'node:fs';
import { text } from 'node:stream/consumers';

const ipc = '/workspace/ipc';
const pollMs = 500;
const endsQueries = process.env.RUNNER_ENDS_QUERIES === '1';

function write(output) {
  console.log('---NANOCLAW_OUTPUT_START---');
  console.log(JSON.stringify(output));
  console.log('---NANOCLAW_OUTPUT_END---');
}

/** As the original's tools do. */
function drop(directory, data) {
  const path = `${ipc}/${directory}/${Date.now()}-${Math.random().toString(36).slice(2, 8)}.json`;
  fs.writeFileSync(`${path}.tmp`, JSON.stringify(data, null, 2));
  fs.renameSync(`${path}.tmp`, path);
}

function isClosed() {
  if (!fs.existsSync(`${ipc}/input/_close`)) return false;
  fs.unlinkSync(`${ipc}/input/_close`);
  return true;
}

function drain() {
  const names = fs.readdirSync(`${ipc}/input`).filter((name) => name.endsWith('.json'));
  return names.sort().flatMap((name) => {
    const path = `${ipc}/input/${name}`;
    const { type, text: said } = JSON.parse(fs.readFileSync(path, 'utf8'));
    fs.unlinkSync(path);
    return type === 'message' && said ? [said] : [];
  });
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const input = JSON.parse(await text(process.stdin));
fs.rmSync(`${ipc}/input/_close`, { force: true });
let session = input.sessionId;

async function turn(prompt) {
  const code = [...prompt.matchAll(/do:([A-Za-z0-9+/=]+)/g)].at(-1)?.[1];
  const notes = prompt.split('\n').filter((line) => line.startsWith('[squash]'));
  if (code === undefined) return notes.length === 0 ? `echo ${prompt}` : `heard ${notes.join('; ')}`;
  const source = `export default ${Buffer.from(code, 'base64').toString('utf8')}`;
  const { default: answer } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  return await answer({ input, prompt, notes, drop, fs, ipc, sleep, write });
}

async function query(first) {
  const prompts = [first];
  for (;;) {
    for (const prompt of prompts.splice(0)) {
      console.error('[agent-runner] a turn');
      const result = await turn(prompt);
      session ??= `session-${process.env.SQUASH_RUN}`;
      write({ status: 'success', result, newSessionId: session });
    }
    if (endsQueries) return false;
    await sleep(pollMs);
    if (isClosed()) return true;
    prompts.push(...drain());
  }
}

try {
  let prompt = [input.prompt, ...drain()].join('\n');
  while (!(await query(prompt))) {
    write({ status: 'success', result: null, newSessionId: session });
    let messages = [];
    while (messages.length === 0) {
      if (isClosed()) process.exit();
      messages = drain();
      await sleep(pollMs);
    }
    prompt = messages.join('\n');
  }
} catch (error) {
  write({ status: 'error', result: null, newSessionId: session, error: error.message });
  process.exit(1);
}
