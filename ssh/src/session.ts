/**
 * A session channel: what the client asks for before it starts something, and the one thing that it starts then.
 *
 * No agent and no X11 is forwarded: either would let programs of the sandbox use what is the client's.
 */
import { constants } from 'node:os';
import type { Duplex } from 'node:stream';
import { limits } from '@squash/contract/limits';
import type { ServerChannel, Session } from 'ssh2';
import { ChannelGoneError, ChannelPipe } from './channel.ts';
import { Command, type CommandEnd, type Terminal, visible } from './command.ts';
import type { Login } from './connection.ts';
import { ApiError } from './daemon.ts';
import { serveSftp } from './sftp/server.ts';

interface SessionPlace {
  readonly login: Login;
  readonly socket: Duplex;
  /** Aborted when the channel is gone. */
  readonly gone: AbortSignal;
  /** Every channel that is open, so that its bounds can be looked at. */
  readonly opened: (channel: ServerChannel) => void;
}

/** As much as a command of the daemon's can have, less what it is given here. */
const variablesMax = limits.execVariablesMax - 8;
const variableBytesMax = 32_768;

export function serveSession(session: Session, place: SessionPlace): void {
  const env: Record<string, string> = {};
  let terminal: Terminal | undefined;
  let command: Command | undefined;
  session.on('env', (accept, reject, { key, val }) => {
    const bytes = Object.entries(env).flat().join('').length + key.length + val.length;
    const isFine = /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) && !val.includes('\0') && bytes <= variableBytesMax;
    if (!isFine || Object.keys(env).length >= variablesMax) return reject?.();
    env[key] = val;
    accept?.();
  });
  session.on('pty', (accept, _reject, { rows, cols, term }: PtyWish) => {
    terminal = { rows: cells(rows), columns: cells(cols), term: termName(term) };
    accept?.();
  });
  session.on('window-change', (accept, _reject, { rows, cols }) => {
    if (terminal !== undefined) terminal = { ...terminal, rows: cells(rows), columns: cells(cols) };
    if (command !== undefined && terminal !== undefined) command.resize(terminal.rows, terminal.columns);
    accept?.();
  });
  session.on('signal', (accept, _reject, { name }) => {
    const number: number | undefined = constants.signals[`SIG${name}` as NodeJS.Signals];
    if (number !== undefined) command?.signal(number);
    accept?.();
  });
  const start = (channel: ServerChannel, line: string | undefined): void => {
    place.opened(channel);
    const pipe = new ChannelPipe(channel, place.socket, place.gone);
    command = new Command({ ...place.login, command: line, env, terminal }, pipe);
    void finish(command.run(), channel, pipe);
  };
  session.on('shell', (accept) => start(accept(), undefined));
  session.on('exec', (accept, _reject, { command: line }) => start(accept(), line));
  session.on('subsystem', (accept, reject, { name }) => {
    if (name !== 'sftp') return reject?.();
    const channel = accept();
    place.opened(channel);
    const pipe = new ChannelPipe(channel, place.socket, place.gone);
    const ending = serveSftp(place.login, pipe).then((): CommandEnd => ({ type: 'status', code: 0 }));
    void finish(ending, channel, pipe);
  });
}

/** What `ssh2` gives beside what its types say. */
interface PtyWish {
  readonly rows: number;
  readonly cols: number;
  readonly term?: string;
}

/** A client without a window says 0. */
const cells = (count: number): number => Math.min(Math.max(count, 1), 4096);

function termName(term: string | undefined): string {
  return term !== undefined && /^[\w.+-]{1,64}$/.test(term) ? term : 'xterm-256color';
}

async function finish(ending: Promise<CommandEnd>, channel: ServerChannel, pipe: ChannelPipe): Promise<void> {
  try {
    const end = await ending;
    if (end.type === 'status') channel.exit(end.code);
    else channel.exit(signalName(end.signal), false, '');
  } catch (error) {
    if (!(error instanceof ChannelGoneError) && !pipe.gone.aborted) {
      const why = error instanceof ApiError ? error.message : 'the client does not keep to the protocol';
      await pipe.write(Buffer.from(`squash: ${visible(why)}\n`), 'stderr').catch(() => undefined);
      channel.exit(255);
    }
  }
  pipe.end();
}

function signalName(number: number): string {
  const [name] = Object.entries(constants.signals).find(([, each]) => each === number) ?? ['SIGKILL'];
  return name.slice(3);
}
