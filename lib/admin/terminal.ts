// How ingest-admin asks, and shows how far it is: a bar on a terminal, nothing elsewhere.
import { createInterface } from 'node:readline/promises';
import { SingleBar } from 'cli-progress';
import { printableLines } from '../process/printable.ts';
import type { Progress } from './session.ts';

const SILENT: Progress = { update: () => undefined, stop: () => undefined };

export function showProgress(stderr: NodeJS.WriteStream, unit: string): Progress {
  if (!stderr.isTTY) return SILENT;
  const bar = new SingleBar({
    stream: stderr,
    format: `{bar} {percentage}% | {value}/{total} ${unit} | {eta_formatted} left`,
    hideCursor: true,
    clearOnComplete: false,
  });
  let started = false;
  return {
    update: (done, of) => {
      if (started) {
        bar.setTotal(of);
        bar.update(done);
      } else bar.start(of, done);
      started = true;
    },
    stop: () => bar.stop(),
  };
}

/** Asks on the terminal; anything but `y` or `yes` is a no, and so is a stop. */
export async function ask(question: string, stopped: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await lines.question(`${printableLines(question)} [y/N] `, { signal: stopped })).trim());
  } catch {
    return false;
  } finally {
    lines.close();
  }
}
