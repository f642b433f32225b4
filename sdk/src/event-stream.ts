/** Server-sent events from a body's bytes: name, id and data of each. Comments keep the connection open only. */
import { protocolError } from './protocol-error.ts';

/** In characters. The daemon cuts output and lines long before this; a cell's result is a picture of 4 MiB at most. */
const lineLengthMax = 8_388_608;

export interface ServerEvent {
  readonly name: string;
  readonly id: string | undefined;
  readonly data: string;
}

export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent, void, void> {
  let fields = emptyEvent();
  let length = 0;
  for await (const line of readLines(body)) {
    length += line.length;
    if (length > lineLengthMax) throw tooLong();
    if (line === '') {
      if (fields.data.length > 0) yield { name: fields.name, id: fields.id, data: fields.data.join('\n') };
      fields = emptyEvent();
      length = 0;
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') fields.name = value;
    if (field === 'id') fields.id = value;
    if (field === 'data') fields.data.push(value);
  }
}

function emptyEvent(): { name: string; id: string | undefined; data: string[] } {
  return { name: 'message', id: undefined, data: [] };
}

async function* readLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of body) {
    const lines = decoder.decode(part, { stream: true }).split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop() ?? '';
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
    if (rest.length > lineLengthMax) throw tooLong();
  }
}

const tooLong = (): Error => protocolError('the daemon sent an event that is too long');
