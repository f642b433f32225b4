/** Server-sent events from a body's bytes: name, id and data of each. Comments keep the connection open only. */
import { Failure } from '../failure.ts';

/** A line of a job is cut by the daemon long before this. */
const lineBytesMax = 1_048_576;

export interface ServerEvent {
  readonly name: string;
  readonly id: string | undefined;
  readonly data: string;
}

export async function* readEvents(body: AsyncIterable<Buffer>): AsyncGenerator<ServerEvent, void, void> {
  let fields = emptyEvent();
  for await (const line of readLines(body)) {
    if (line === '') {
      if (fields.data.length > 0) yield { name: fields.name, id: fields.id, data: fields.data.join('\n') };
      fields = emptyEvent();
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

async function* readLines(body: AsyncIterable<Buffer>): AsyncGenerator<string, void, void> {
  let rest = Buffer.alloc(0);
  for await (const part of body) {
    rest = Buffer.concat([rest, part]);
    for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
      yield rest.toString('utf8', 0, end).replace(/\r$/, '');
      rest = rest.subarray(end + 1);
    }
    if (rest.length > lineBytesMax) throw new Failure('too_long', 'the daemon sent a line that is too long');
  }
}
