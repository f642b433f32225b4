/**
 * The way to a server that somebody else runs, with an end for what it may have us do unasked: the SDK answers whatever it is asked at once, and holds
 * what the server does not read for as long as that goes on.
 */
import type { Readable, Writable } from 'node:stream';
import type { StreamableHTTPClientTransport, Transport } from '@modelcontextprotocol/client';
import type { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { chargeRun } from '../host/tool-context.ts';

type ServerTransport = StdioClientTransport | StreamableHTTPClientTransport;

/** Answers to what the server asked: ordinary servers ask seldom, and read what they get. */
const answersMax = 1000;
/** What calls of several runs may hold at once, by far. */
const unreadBytesMax = 134_217_728;
/** Whatever was not asked for, in one second. A server that tells of its progress does so a few times. */
const messagesMax = 2000;

/** @param onFault told once, of a server that is ended for it */
export function boundTransport(transport: ServerTransport, onFault: (message: string) => void): void {
  let isEnded = false;
  const end = (message: string) => {
    if (isEnded) return;
    isEnded = true;
    onFault(`${message}: it is closed`);
    endTransport(transport);
  };
  let second = 0;
  let messages = 0;
  const count = (more: number): void => {
    const now = Math.floor(performance.now() / 1000);
    messages = now === second ? messages + more : more;
    second = now;
    if (messages > messagesMax) end(`the server sent more than ${messagesMax} messages in a second unasked`);
  };
  // Of a child's lines the SDK tells nobody that they are no messages: each is counted, and what is one only where it is an answer.
  const each = 'pid' in transport ? 0 : 1;
  let asked = 0;
  // The SDK keeps these listeners, and calls them before its own.
  transport.onmessage = (message) => {
    const isAnswer = !('method' in message) && asked > 0;
    if (isAnswer) asked -= 1;
    count(isAnswer ? each - 1 : each);
  };
  transport.onerror = () => count(each);
  const start: Transport['start'] = transport.start.bind(transport);
  transport.start = async () => {
    await start();
    childOf(transport)?.stdout?.on('data', (chunk: Buffer) => count(linesIn(chunk)));
  };
  let answers = 0;
  const send: Transport['send'] = transport.send.bind(transport);
  transport.send = async (...given: Parameters<Transport['send']>) => {
    if (isEnded) throw new Error('the server is closed');
    const sending = [given[0]].flat();
    asked += sending.filter((message) => 'method' in message && 'id' in message).length;
    const own = sending.every((message) => 'method' in message) ? 0 : 1;
    answers += own;
    if (answers > answersMax) end(`the server does not read the answers to more than ${answersMax} requests`);
    try {
      const sent = chargeRun(() => send(...given));
      if (unreadBytes(transport) > unreadBytesMax)
        end(`the server has not read more than ${unreadBytesMax} bytes that it was sent`);
      await sent;
    } finally {
      answers -= own;
    }
  };
}

function linesIn(chunk: Buffer): number {
  let lines = 0;
  for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines += 1;
  return lines;
}

interface Child {
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  kill(signal: 'SIGKILL'): boolean;
}

/** Private to the SDK, whose own `close()` gives a server four seconds more of what it is ended for. */
function childOf(transport: ServerTransport): Child | undefined {
  return (transport as { readonly _process?: Child })._process;
}

function unreadBytes(transport: ServerTransport): number {
  return childOf(transport)?.stdin?.writableLength ?? 0;
}

function endTransport(transport: ServerTransport): void {
  const child = childOf(transport);
  child?.stdout?.destroy();
  child?.stdin?.destroy();
  child?.kill('SIGKILL');
  // Of a child that is gone the transport hears by itself.
  if (child === undefined) transport.close().catch(() => {});
}
