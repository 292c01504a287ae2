// Progress on standard error: one line that is overwritten on a terminal, otherwise one line for each step.

export class Progress {
  readonly #beganMs = performance.now();
  #shown = false;

  show(step: string): void {
    const seconds = Math.round((performance.now() - this.#beganMs) / 1000);
    const line = `${String(Math.floor(seconds / 60)).padStart(2)}:${String(seconds % 60).padStart(2, '0')} ${step}`;
    process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
    this.#shown = true;
  }

  /** Before a result is printed. */
  clear(): void {
    if (this.#shown && process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    this.#shown = false;
  }
}
