// The line that shows on a terminal how far a long scan is. It stands on standard error, is rewritten in place a few
// times a second, and is gone when the scan ends.
import { counted } from '../convert/plain-text.ts';
import type { OutputStream } from './program-io.ts';

const INTERVAL_MS = 100;

/** Shows progress on a terminal; does nothing elsewhere. */
export class ProgressLine {
  readonly #stream: OutputStream;
  readonly #shows: boolean;
  #last = -Infinity;
  #shown = false;

  constructor(stream: OutputStream, env: Readonly<Record<string, string | undefined>>) {
    this.#stream = stream;
    this.#shows = stream.isTTY === true && env['TERM'] !== 'dumb' && (env['CI'] ?? '') === '';
  }

  update(done: number, total: number, findings: number): void {
    const now = performance.now();
    if (!this.#shows || (now - this.#last < INTERVAL_MS && done < total)) return;
    this.#last = now;
    this.#shown = true;
    const text = `${done}/${total} files, ${counted(findings, 'finding')}`;
    this.#stream.write(`\r\u001b[K${text.slice(0, Math.max(10, (this.#stream.columns || 80) - 1))}`);
  }

  /** Clears the line. */
  end(): void {
    if (this.#shown) this.#stream.write('\r\u001b[K');
    this.#shown = false;
  }
}
