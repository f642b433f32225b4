/** What becomes of a message that comes in. Pure: the chat's rules and the message. */
import type { ChatCreate, MessageBody, MessageTaken } from '@squash/contract/groups';

export interface Triggered {
  readonly verdict: MessageTaken['verdict'];
  /** The rule that decided, for whoever wonders why nothing happens. */
  readonly reason: string;
}

export function triggered(
  { trigger, senders, others }: Pick<ChatCreate, 'trigger' | 'senders' | 'others'>,
  { sender, text }: Pick<MessageBody, 'sender' | 'text'>,
): Triggered {
  if (senders !== '*' && !senders.includes(sender)) {
    const verdict = others === 'drop' ? 'dropped' : 'context';
    return { verdict, reason: `sender is not among "senders", others = ${others}` };
  }
  if (trigger === null) return { verdict: 'starts', reason: 'no trigger is needed' };
  return beginsWith(text.trimStart(), trigger)
    ? { verdict: 'starts', reason: 'it begins with the trigger' }
    : { verdict: 'context', reason: 'it does not begin with the trigger' };
}

/** As a word of its own, in any script: `@bot` is not in `@bottom`. */
function beginsWith(text: string, trigger: string): boolean {
  const head = text.slice(0, trigger.length);
  if (head.toLowerCase() !== trigger.toLowerCase()) return false;
  return !/^[\p{L}\p{N}_]/u.test(text.slice(trigger.length));
}
