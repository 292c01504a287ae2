// Records faults and process exits with their times, for a person who looks for the cause of a violation.

export class History {
  readonly #beganMs = performance.now();
  readonly #notes: { readonly atMs: number; readonly text: string }[] = [];

  now(): number {
    return performance.now() - this.#beganMs;
  }

  note(text: string): void {
    this.#notes.push({ atMs: this.now(), text });
  }

  between(fromMs: number, toMs: number): string {
    return this.#notes
      .filter(({ atMs }) => atMs >= fromMs && atMs <= toMs)
      .map(({ atMs, text }) => `${(atMs / 1000).toFixed(3).padStart(9)} s  ${text}`)
      .join('\n');
  }
}
