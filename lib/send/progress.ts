// What a person sees while a run goes: on a terminal a bar with the latest error beside it, elsewhere a line about what
// it waits for, at most one in WAITING_INTERVAL_MS.
import { SingleBar } from 'cli-progress';
import type { Input } from './input.ts';
import { reasonOf, type Retry } from './sender.ts';

const BAR_INTERVAL_MS = 200;
const WAITING_INTERVAL_MS = 10_000;
/** So long after the latest repeated try its reason is still shown. */
const REASON_SHOWN_MS = 5_000;

export interface Progress {
  retry(retry: Retry): void;
  stop(): void;
}

export function showProgress(input: Input, stderr: NodeJS.WriteStream): Progress {
  return stderr.isTTY && input.bytes !== undefined ? bar(input.bytes, stderr) : waitingLines(stderr);
}

const told = ({ code, answer }: Retry): string => `${code}: ${reasonOf(answer)}`;

function bar({ total, read }: NonNullable<Input['bytes']>, stream: NodeJS.WriteStream): Progress {
  const shown = new SingleBar({
    stream,
    format: '{bar} {percentage}% | {value}/{total} bytes | {eta_formatted} left{why}',
    hideCursor: true,
  });
  let why = '';
  let atMs = 0;
  shown.start(total, 0, { why });
  const draw = (): void => {
    if (performance.now() - atMs > REASON_SHOWN_MS) why = '';
    shown.update(Math.min(read(), total), { why });
  };
  const timer = setInterval(draw, BAR_INTERVAL_MS);
  return {
    retry: (retry) => {
      why = ` | waiting, ${told(retry)}`;
      atMs = performance.now();
    },
    stop: () => {
      clearInterval(timer);
      why = '';
      draw();
      shown.stop();
    },
  };
}

function waitingLines(stream: NodeJS.WriteStream): Progress {
  let toldMs = Number.NEGATIVE_INFINITY;
  return {
    retry: (retry) => {
      if (performance.now() - toldMs < WAITING_INTERVAL_MS) return;
      toldMs = performance.now();
      stream.write(`ingest-send: waiting ${(retry.pauseMs / 1000).toFixed(1)} s to try again, ${told(retry)}\n`);
    },
    stop: () => undefined,
  };
}
