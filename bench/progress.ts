// Says on standard error what is being done: one line that is written over on a terminal, a line for each step
// elsewhere.

export class Progress {
  readonly #beganMs = performance.now();
  #shown = false;

  show(step: string): void {
    const seconds = Math.round((performance.now() - this.#beganMs) / 1000);
    const line = `${String(Math.floor(seconds / 60)).padStart(2)}:${String(seconds % 60).padStart(2, '0')} ${step}`;
    process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
    this.#shown = true;
  }

  /** Makes room for a result. */
  clear(): void {
    if (this.#shown && process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    this.#shown = false;
  }
}
