/** The error for a peer that breaks what it promises. */
import { type ErrorParts, ProtocolError } from './errors.ts';

export function protocolError(message: string, parts: Partial<ErrorParts> = {}): ProtocolError {
  return new ProtocolError({ code: 'protocol_error', ...parts, message });
}
