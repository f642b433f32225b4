/** `@squash/sdk/srt`: the module of Anthropic's Sandbox Runtime over boxes. For Node on Linux; it starts the program `squash`. */
export { SandboxManager, type SandboxOptions } from './manager.ts';
export type { AskAnswer, SandboxAskCallback } from './session.ts';
export type { SrtConfig, SrtCustomConfig, SrtFilesystem, SrtNetwork, SrtPath } from './settings.ts';
export { type SandboxViolation, SandboxViolationStore } from './violations.ts';
