/** From the bodies of `process.exec` and `process.start` to what the engine takes. */
import type { ProcessExecBody, ProcessRequest, ProcessStartBody } from '@squash/contract/process';

export function commandOf(body: ProcessExecBody | ProcessStartBody) {
  const { argv, shell, env, cwd, user, tag, timeout_ms, output_bytes_max, keep } = body;
  return {
    argv,
    shell,
    env,
    cwd,
    user,
    tag,
    timeoutMs: timeout_ms,
    outputBytesMax: output_bytes_max,
    keep,
  };
}

export function execRequest(body: ProcessExecBody): ProcessRequest {
  const { stdin, stdin_base64 } = body;
  const given =
    stdin === undefined
      ? stdin_base64 === undefined
        ? undefined
        : Buffer.from(stdin_base64, 'base64')
      : Buffer.from(stdin, 'utf8');
  return { ...commandOf(body), tty: undefined, stdin: given ?? 'none', isBackground: false };
}
