// The process endpoints: alive, ready, metrics. They need no certificate, so what they cost is bounded.
import type { Queue } from '../ingest/queue.ts';
import type { Answer } from '../http/respond.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { json, type GatewayAnswer } from './answers.ts';

/** The process runs and its event loop turns. It says nothing of the queue (specification, "Process endpoints"). */
export const live = (): Answer => json(200, { status: 'live' });

/** Ready while the queue answered a recent probe and the process is not stopping. */
export function ready(queue: Queue, draining: boolean): Answer {
  if (draining) return json(503, { status: 'draining' });
  const state = queue.state();
  return state.available ? json(200, { status: 'ready' }) : json(503, { status: 'unavailable', reason: state.reason });
}

/** The text of the metrics is made at most this often, in milliseconds. */
const SCRAPE_INTERVAL_MS = 200;

/** What a scrape asks of a registry of metrics. */
interface Exposition {
  readonly contentType: string;
  metrics(): Promise<string>;
}

// Fact: the text takes about a millisecond, and anybody may ask for it. Choice: whoever asks too soon waits, and all who wait
// share one text. It is made after they asked, so it holds all that had happened by then.
export class Scrape {
  readonly #registry: Exposition;
  #next: Promise<string> | undefined;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Exposition) {
    this.#registry = registry;
  }

  async answer(): Promise<GatewayAnswer> {
    this.#next ??= this.#make();
    return { status: 200, contentType: this.#registry.contentType, body: await this.#next };
  }

  async #make(): Promise<string> {
    await sleep(Math.max(0, this.#lastMs + SCRAPE_INTERVAL_MS - performance.now()));
    this.#next = undefined;
    this.#lastMs = performance.now();
    return this.#registry.metrics();
  }
}
