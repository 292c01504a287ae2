// Faults and process exits with their times, for a person who looks for the cause of a violation.

export class History {
  readonly #beganMs = performance.now();
  readonly #notes: { readonly atMs: number; readonly text: string }[] = [];

  /** Milliseconds since the start. Ledger and history share this clock. */
  now(): number {
    return performance.now() - this.#beganMs;
  }

  note(text: string): void {
    this.#notes.push({ atMs: this.now(), text });
  }

  /** One note per line. */
  between(fromMs: number, toMs: number): string {
    return this.#notes
      .filter(({ atMs }) => atMs >= fromMs && atMs <= toMs)
      .map(({ atMs, text }) => `${(atMs / 1000).toFixed(3).padStart(9)} s  ${text}`)
      .join('\n');
  }
}
