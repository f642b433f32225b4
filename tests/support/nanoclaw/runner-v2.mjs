/**
 * An agent runner to the protocol of NanoClaw's version 2, as its own is: polls `inbound.db`, acknowledges, answers in `outbound.db`, and never
 * ends. In place of a model it does what a message says, as `runner.mjs` does.
 */
import fs from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

const pollMs = 300;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const outbound = new DatabaseSync('/workspace/outbound.db');
outbound.exec('PRAGMA journal_mode = DELETE; PRAGMA busy_timeout = 5000');
outbound.exec("DELETE FROM processing_ack WHERE status = 'processing'");

function inbound(use) {
  const database = new DatabaseSync('/workspace/inbound.db', { readOnly: true });
  try {
    database.exec('PRAGMA busy_timeout = 5000');
    return use(database);
  } finally {
    database.close();
  }
}

const config = JSON.parse(fs.readFileSync('/workspace/agent/container.json', 'utf8'));
const all = (sql, ...values) => inbound((database) => database.prepare(sql).all(...values));

function pending() {
  const rows = all(
    `SELECT * FROM messages_in WHERE status = 'pending' AND (process_after IS NULL OR datetime(process_after) <= datetime('now'))
     ORDER BY seq DESC LIMIT ?`,
    config.maxMessagesPerPrompt,
  );
  const known = new Set(outbound.prepare('SELECT message_id FROM processing_ack').all().map((row) => row.message_id));
  return rows.filter(({ id, kind }) => kind !== 'system' && !known.has(id)).reverse();
}

function acknowledge(rows, status) {
  const put = outbound.prepare('INSERT OR REPLACE INTO processing_ack VALUES (?, ?, ?)');
  for (const { id } of rows) put.run(id, status, new Date().toISOString());
}

/** As the original's tools do: odd numbers, above both. */
function write({ kind = 'chat', to, content }) {
  const [{ most: mostIn }] = all('SELECT coalesce(max(seq), 0) AS most FROM messages_in');
  const { most: mostOut } = outbound.prepare('SELECT coalesce(max(seq), 0) AS most FROM messages_out').get();
  const most = Math.max(mostIn, mostOut);
  const [routing] = all('SELECT * FROM session_routing WHERE id = 1');
  const id = `msg-${Date.now()}-${Math.random().toString(36).slice(2, 8)}`;
  outbound
    .prepare(
      `INSERT INTO messages_out (id, seq, timestamp, kind, platform_id, channel_type, content) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      id,
      most % 2 === 0 ? most + 1 : most + 2,
      new Date().toISOString(),
      kind,
      to ?? routing.platform_id,
      routing.channel_type,
      JSON.stringify(content),
    );
  return id;
}

function state(key, value) {
  if (value !== undefined)
    outbound.prepare('INSERT OR REPLACE INTO session_state VALUES (?, ?, ?)').run(key, value, new Date().toISOString());
  return outbound.prepare('SELECT value FROM session_state WHERE key = ?').get(key)?.value;
}

for (;;) {
  const rows = pending();
  if (rows.length === 0) {
    await sleep(pollMs);
    continue;
  }
  acknowledge(rows, 'processing');
  const given = rows.map(({ kind, content, ...row }) => ({ kind, ...row, content: JSON.parse(content) }));
  const text = given.map(({ content }) => content.text ?? content.prompt).join('\n');
  const code = [...text.matchAll(/do:([A-Za-z0-9+/=]+)/g)].at(-1)?.[1];
  let answer = `heard ${text}`;
  if (code !== undefined) {
    const source = `export default ${Buffer.from(code, 'base64').toString('utf8')}`;
    const { default: does } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
    answer = await does({ given, config, write, state, all, sleep, fs });
  }
  fs.utimesSync('/workspace/.heartbeat', new Date(), new Date());
  acknowledge(rows, 'completed');
  console.error(`[poll-loop] Result: ${String(answer).slice(0, 200)}`);
  if (answer) write({ content: { text: answer } });
}
