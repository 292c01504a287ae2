// Sends events as a producer should: a bounded number at a time, and again only when that is allowed, with pauses.
//
// Invariants: an event that was accepted once is not sent again by this run; sending it again in another run is safe,
// because its id makes it a duplicate. Nothing is reordered on purpose, and nothing promises an order either.
//
// Pauses between the tries of one event double from PAUSE_FIRST_MS to PAUSE_MAX_MS with jitter, and are never shorter than
// the gateway's Retry-After. After `triesMax` tries the event counts as refused, with its last answer.
import { pause, pauseMs } from '../process/backoff.ts';
import type { Try } from './gateway-client.ts';
import type { Line } from './lines.ts';

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** An event that did not get in. `code` is the gateway's, or NO_ANSWER, or HTTP_<status> for a body without one. */
export interface Refusal {
  readonly line: Line;
  readonly code: string;
  readonly status: number;
  readonly answer: unknown;
}

export interface Summary {
  readonly accepted: number;
  /** Those of the accepted that the gateway had before. */
  readonly duplicates: number;
  readonly refused: ReadonlyMap<string, number>;
  readonly retries: number;
  /** Events that were begun and given up because the run was interrupted. */
  readonly interrupted: number;
}

export interface SenderOptions {
  readonly send: (body: Buffer) => Promise<Try>;
  readonly concurrency: number;
  readonly triesMax: number;
  readonly signal: AbortSignal;
  readonly onRefused: (refusal: Refusal) => void | Promise<void>;
  /** After each event that is done with. */
  readonly onDone: (line: Line) => void;
}

export async function sendAll(events: AsyncGenerator<Line>, options: SenderOptions): Promise<Summary> {
  const refused = new Map<string, number>();
  const summary = { accepted: 0, duplicates: 0, refused, retries: 0, interrupted: 0 };

  async function sendOne(line: Line): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const result = await options.send(line.bytes);
      if (result.kind === 'accepted') {
        summary.accepted += 1;
        if (result.duplicate) summary.duplicates += 1;
        return;
      }
      if (result.kind === 'refused' || tries >= options.triesMax) {
        refused.set(result.code, (refused.get(result.code) ?? 0) + 1);
        await options.onRefused({ line, code: result.code, status: result.status, answer: result.answer });
        return;
      }
      if (!options.signal.aborted) {
        await pause(Math.max(result.afterMs, pauseMs(tries, PAUSE_FIRST_MS, PAUSE_MAX_MS)), options.signal);
      }
      if (options.signal.aborted) {
        summary.interrupted += 1;
        return;
      }
      summary.retries += 1;
    }
  }

  // Standard input may bring nothing for long: an interruption does not wait for it.
  const ended = new Promise<{ done: true }>((resolve) => {
    options.signal.addEventListener('abort', () => resolve({ done: true }), { once: true });
  });

  async function lane(): Promise<void> {
    while (!options.signal.aborted) {
      const next = await Promise.race([events.next(), ended]);
      if (next.done === true) return;
      await sendOne(next.value);
      options.onDone(next.value);
    }
  }

  await Promise.all(Array.from({ length: options.concurrency }, lane));
  return summary;
}
