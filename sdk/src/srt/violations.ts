/** What commands were refused, kept for whoever tells a model why its command failed. */

export interface SandboxViolation {
  /** One line of text. */
  readonly line: string;
  readonly command: string;
  readonly timestamp: Date;
}

/** The newest are kept. */
const keptMax = 100;

export class SandboxViolationStore {
  #violations: SandboxViolation[] = [];
  #count = 0;
  readonly #listeners = new Set<(violations: SandboxViolation[]) => void>();

  addViolation(violation: SandboxViolation): void {
    this.#count += 1;
    this.#violations = [...this.#violations, violation].slice(-keptMax);
    this.#tell();
  }

  getViolations(limit?: number): SandboxViolation[] {
    return limit === undefined
      ? [...this.#violations]
      : this.#violations.slice(-Math.max(0, limit) || keptMax);
  }

  getViolationsForCommand(command: string): SandboxViolation[] {
    return this.#violations.filter((each) => each.command === command);
  }

  getCount(): number {
    return this.#violations.length;
  }

  /** With those that are not kept any more. */
  getTotalCount(): number {
    return this.#count;
  }

  clear(): void {
    this.#violations = [];
    this.#tell();
  }

  /** Told at once what there is. Returns what ends it. */
  subscribe(listener: (violations: SandboxViolation[]) => void): () => void {
    this.#listeners.add(listener);
    listener(this.getViolations());
    return () => this.#listeners.delete(listener);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener(this.getViolations());
  }
}

/** Behind what the command wrote itself, in a frame that nothing it wrote can end: its lines have no signs of their own. */
export function annotated(stderr: string, violations: readonly SandboxViolation[]): string {
  if (violations.length === 0) return stderr;
  const lines = violations.map(({ line }) => line.replace(/[^\w .:;,/*()[\]-]/g, '?'));
  return `${stderr}\n<sandbox_violations>\n${lines.join('\n')}\n</sandbox_violations>`;
}
