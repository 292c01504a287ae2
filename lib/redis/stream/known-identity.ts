// A queue's identity as a reader knows it: asked of each connection, and now and then, because a gateway that accepts
// longer bodies may have started since.
import type { Clock, ClockAndRandom, Timer } from '../../process/clock.ts';
import type { Server } from '../server/client.ts';
import { queueIdentity, type Identify, type QueueIdentity } from './queue-identity.ts';

const ASK_INTERVAL_MS = 10_000;

export class KnownIdentity {
  readonly #stream: string;
  readonly #identify: Identify;
  readonly #clock: Clock;
  #known: QueueIdentity | undefined;
  #asking: Timer | undefined;

  /** `identify`: how the queue is identified; by the stream's own metadata by default. */
  constructor(
    stream: string,
    { clock, random }: ClockAndRandom,
    identify: Identify = (server, known) => queueIdentity(server, stream, { random, known }),
  ) {
    this.#stream = stream;
    this.#clock = clock;
    this.#identify = identify;
  }

  /** See Delivery.source; of a queue that was not asked yet it names the stream alone. */
  get source(): string {
    return `${this.#known?.id ?? ''}/${this.#stream}`;
  }

  /** See QueueReader. */
  get bodyBytesMax(): number | undefined {
    return this.#known?.bodyBytesMax;
  }

  /** Rejects as `queueIdentity` does. */
  async ask(server: Server): Promise<void> {
    this.#known = await this.#identify(server, this.#known);
  }

  /** Asks again now and then. One that is not there is asked the next time. */
  keepAsking(server: Server): void {
    this.#asking ??= this.#clock.every(ASK_INTERVAL_MS, () => void this.ask(server).catch(() => undefined));
  }

  stop(): void {
    this.#asking?.close();
  }
}
