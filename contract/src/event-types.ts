/** Every type of event. Apart from `events.ts`, because the command line completes them without loading schemas. */
export const eventTypes = [
  'sandbox.created',
  'sandbox.updated',
  'sandbox.paused',
  'sandbox.resumed',
  'sandbox.stopped',
  'sandbox.restarted',
  'sandbox.failed',
  'sandbox.timed_out',
  'sandbox.destroyed',
  'snapshot.created',
  'snapshot.removed',
  'snapshot.updated',
  'mount.attached',
  'mount.detached',
  'approval.requested',
  'approval.decided',
  'action.held',
  'action.decided',
] as const;
export type EventType = (typeof eventTypes)[number];
