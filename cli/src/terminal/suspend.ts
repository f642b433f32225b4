/** Ctrl-Z: whoever the shell started stops, which is another process than ours where we stand in for it (`box/standby.ts`). */

let caller: number | undefined;

/** Where nothing else does, SIGTSTP stops both from here on: ours alone would be ignored, for it is no job of a shell. */
export function standFor(pid: number): void {
  caller = pid;
  process.on('SIGTSTP', () => {
    if (process.listenerCount('SIGTSTP') === 1) suspendSelf();
  });
}

/** Until SIGCONT, which the caller passes on. */
export function suspendSelf(): void {
  if (caller !== undefined) process.kill(caller, 'SIGSTOP');
  process.kill(process.pid, 'SIGSTOP');
}
