/**
 * The part of ssh-agent's protocol (draft-ietf-sshm-ssh-agent) that a box may speak: which keys there are, and to sign with one.
 *
 * Whoever connects is hostile: a length is believed up to a limit, a message is taken whole or not at all, and what has a byte too
 * many or too few is no request. What is passed on is written anew from what was read.
 */
import { createHash } from 'node:crypto';
import { SshFields } from '@squash/contract/ssh-fields';

/** As OpenSSH's agent has it, length included. */
export const messageBytesMax = 262_144;
const lengthBytes = 4;

export const failureAnswer: Buffer = frame(Buffer.of(5));
const requestIdentities = 11;
const identitiesAnswer = 12;
const signRequest = 13;
const signResponse = 14;
/** RSA with SHA-256 and with SHA-512. */
const signFlags = [0, 2, 4];

export type AgentRequest =
  | { readonly type: 'identities' }
  | { readonly type: 'sign'; readonly key: Buffer; readonly data: Buffer; readonly flags: number }
  /** To be answered with a failure. */
  | { readonly type: 'other' };

export interface Identity {
  readonly key: Buffer;
  readonly comment: Buffer;
}

/** Cuts a stream into messages. */
export class Frames {
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Before so many are there no look is worth it: they may come one by one. */
  #wantedBytes = lengthBytes;

  /** Undefined: what was sent is no message, and nothing behind it can be one. */
  take(part: Buffer): readonly Buffer[] | undefined {
    this.#parts.push(part);
    this.#bytes += part.length;
    if (this.#bytes < this.#wantedBytes) return [];
    const messages: Buffer[] = [];
    let rest = Buffer.concat(this.#parts);
    this.#wantedBytes = lengthBytes;
    while (rest.length >= lengthBytes) {
      const length = rest.readUInt32BE(0);
      if (length === 0 || length > messageBytesMax - lengthBytes) return undefined;
      this.#wantedBytes = lengthBytes + length;
      if (rest.length < this.#wantedBytes) break;
      messages.push(rest.subarray(lengthBytes, this.#wantedBytes));
      rest = rest.subarray(this.#wantedBytes);
      this.#wantedBytes = lengthBytes;
    }
    this.#parts = [rest];
    this.#bytes = rest.length;
    return messages;
  }
}

export function readRequest(message: Buffer): AgentRequest {
  if (message[0] === requestIdentities && message.length === 1) return { type: 'identities' };
  if (message[0] !== signRequest) return { type: 'other' };
  const fields = new SshFields(message.subarray(1));
  const [key, data, flags] = [fields.bytes(), fields.bytes(), fields.uint32()];
  if (key === undefined || data === undefined || flags === undefined || !fields.isAtEnd)
    return { type: 'other' };
  return signFlags.includes(flags) ? { type: 'sign', key, data, flags } : { type: 'other' };
}

export function identitiesRequest(): Buffer {
  return frame(Buffer.of(requestIdentities));
}

export function signMessage({ key, data, flags }: Extract<AgentRequest, { readonly type: 'sign' }>): Buffer {
  return frame(Buffer.concat([Buffer.of(signRequest), text(key), text(data), number(flags)]));
}

/** Undefined: this is no list of keys. */
export function readIdentities(message: Buffer): readonly Identity[] | undefined {
  if (message[0] !== identitiesAnswer) return undefined;
  const fields = new SshFields(message.subarray(1));
  const count = fields.uint32() ?? 0;
  const found: Identity[] = [];
  // Each takes eight bytes at least: a count that lies ends with the message.
  for (let at = 0; at < count; at += 1) {
    const [key, comment] = [fields.bytes(), fields.bytes()];
    if (key === undefined || comment === undefined) return undefined;
    found.push({ key, comment });
  }
  return fields.isAtEnd ? found : undefined;
}

export function identitiesMessage(identities: readonly Identity[]): Buffer {
  const fields = identities.flatMap(({ key, comment }) => [text(key), text(comment)]);
  return frame(Buffer.concat([Buffer.of(identitiesAnswer), number(identities.length), ...fields]));
}

/** The agent's answer as it goes on: a signature, else a failure. */
export function signatureMessage(message: Buffer): Buffer | undefined {
  if (message[0] !== signResponse) return undefined;
  const fields = new SshFields(message.subarray(1));
  const signature = fields.bytes();
  if (signature === undefined || !fields.isAtEnd) return undefined;
  return frame(Buffer.concat([Buffer.of(signResponse), text(signature)]));
}

/** As `ssh-add -l` shows it. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

function frame(message: Buffer): Buffer {
  return text(message);
}

/** A string of the protocol: bytes behind their length. */
function text(bytes: Buffer): Buffer {
  return Buffer.concat([number(bytes.length), bytes]);
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(lengthBytes);
  bytes.writeUInt32BE(value);
  return bytes;
}
