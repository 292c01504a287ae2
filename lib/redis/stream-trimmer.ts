// Trims a stream and its id index every few seconds, by trim.lua, which has the rules and notices losses.
//
// It is no part of accepting: it runs also while the queue is idle or Redis full, from any number of processes. A look
// that fails is made again at the next interval: whoever accepts or reads tells what is wrong with the queue.
import type { Log } from '../process/log.ts';
import type { Server } from './client.ts';
import { withTimeout } from './deadline.ts';
import { Script } from './script.ts';
import { GROUP } from './stream-names.ts';

const INTERVAL_MS = 2_000;
const ANSWER_TIMEOUT_MS = 5_000;
/** Entries that one call drops: Redis does nothing else meanwhile. */
const CALL_ENTRIES = 1_000;
/** Between the calls of one look. */
const PAUSE_MS = 10;

/** How long what has not landed stays: the default of INGEST_QUEUE_UNLANDED_HOURS_MAX. */
export const UNLANDED_HOURS_MAX = 168;

export interface TrimmerOptions {
  readonly server: Server;
  readonly stream: string;
  /** How long an entry stays that has landed. */
  readonly retentionMs: number;
  /** How long an entry stays that has not landed, at least `retentionMs`. */
  readonly unlandedMs: number;
  readonly log: Log;
  /** Called with the number of events that the queue lost before they were read, where there are some. */
  readonly onLost: (events: number) => void;
}

export class StreamTrimmer {
  readonly #options: TrimmerOptions;
  readonly #script = new Script('trim.lua');
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: TrimmerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.look(), INTERVAL_MS);
  }

  /** Trims what is to be trimmed now. Rejects never. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { log } = this.#options;
    try {
      while (await this.#trim()) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    } catch (cause) {
      log.debug({ err: cause }, 'the queue could not be trimmed');
    }
  }

  /** One call; true when there is more to drop. */
  async #trim(): Promise<boolean> {
    const { server, stream, retentionMs, unlandedMs, log, onLost } = this.#options;
    const command = this.#script.command(stream);
    command.push(String(retentionMs), String(unlandedMs), String(Date.now()), GROUP, String(CALL_ENTRIES));
    const reply = await withTimeout(this.#script.run(server, command), ANSWER_TIMEOUT_MS);
    const [dropped = 0, lost = 0, more] = reply as readonly number[];
    if (dropped > 0) log.debug({ dropped }, 'dropped entries past retention');
    if (lost > 0) {
      onLost(lost);
      log.error(
        { events: lost },
        `the queue lost ${lost} accepted events before they landed: past INGEST_QUEUE_UNLANDED_HOURS_MAX, or deleted by hand`,
      );
    }
    return more === 1;
  }
}
