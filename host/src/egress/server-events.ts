/** Server-sent events out of a response, as far as the egress process uses them: `event`, `id`, `data`, comments. */
import { Failure } from '@squash/base/failure';
import { limits } from '@squash/contract/limits';

export interface ServerEvent {
  readonly id: string;
  /** Its `event`; empty where it has none. */
  readonly name: string;
  readonly data: string;
}

/** @throws Failure where a line is longer than any event there is; what the stream throws */
export async function* serverEvents(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerEvent, void, void> {
  const decoder = new TextDecoder();
  let rest = '';
  let id = '';
  let data = '';
  let name = '';
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > limits.egressAnswerBytesMax)
      throw new Failure('event_too_long', 'an event without end');
    for (const line of lines) {
      if (line === '') {
        if (data !== '') yield { id, name, data };
        data = '';
        name = '';
      } else if (line.startsWith('id:')) id = line.slice(3).trim();
      else if (line.startsWith('event:')) name = line.slice(6).trim();
      else if (line.startsWith('data:')) data += line.slice(5).trimStart();
    }
  }
}
