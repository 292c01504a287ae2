// Shows progress on standard error. A terminal shows one line that each step overwrites; otherwise, every step is
// printed on its own line.

export class Progress {
  readonly #beganMs = performance.now();
  #shown = false;

  show(step: string): void {
    const seconds = Math.round((performance.now() - this.#beganMs) / 1000);
    const line = `${String(Math.floor(seconds / 60)).padStart(2)}:${String(seconds % 60).padStart(2, '0')} ${step}`;
    process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
    this.#shown = true;
  }

  /** Erases the progress line on a terminal. Call this before printing a result. */
  clear(): void {
    if (this.#shown && process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    this.#shown = false;
  }
}
