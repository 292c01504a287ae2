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

/** Asks on the terminal. Only the word `yes` agrees: Enter by mistake changes nothing. A stop is a no. */
export async function ask(question: string, stopped: AbortSignal): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${printableLines(question)} Type yes to go on: `, { signal: stopped });
    return answer.trim() === 'yes';
  } catch {
    return false;
  } finally {
    lines.close();
  }
}
