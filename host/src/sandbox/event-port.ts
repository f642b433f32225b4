/** How what happens to a sandbox is told: see `engine/events.ts`, which keeps it and wakes who waits. */
import type { EventType } from '@squash/contract/event-types';
import type { EventData } from '@squash/contract/events';

/** A sandbox's row is one. */
export interface EventSubject {
  /** Empty: there is no sandbox any more. */
  readonly id: string;
  readonly owner: string;
}

export interface SandboxEvent {
  readonly type: EventType;
  /** Short: texts are cut at `limits.eventTextCharsMax`. Of what programs in the sandbox chose only a host's name, in DNS's letters. */
  readonly data?: EventData;
}

export interface EventPort {
  /**
   * Call inside the transaction of the change that it tells of: then a crash keeps both or neither. Takes some
   * microseconds; who follows is woken behind the transaction.
   */
  tell(whose: EventSubject, event: SandboxEvent): void;
}
