// A queue's identity as a reader knows it: asked of each connection, and now and then, because a gateway that accepts
// longer bodies may have started since.
import type { Server } from '../server/client.ts';
import { queueIdentity, type Identify, type QueueIdentity } from './queue-identity.ts';

const ASK_INTERVAL_MS = 10_000;

export class KnownIdentity {
  readonly #stream: string;
  readonly #identify: Identify;
  #known: QueueIdentity | undefined;
  #asking: NodeJS.Timeout | undefined;

  /** `identify`: how the queue is identified; by the stream's own metadata by default. */
  constructor(stream: string, identify: Identify = (server, known) => queueIdentity(server, stream, { known })) {
    this.#stream = stream;
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
    this.#asking ??= setInterval(() => void this.ask(server).catch(() => undefined), ASK_INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#asking);
  }
}
