// What events take of a server's memory, measured: they are accepted into a queue of their own beside the real one, by
// the script that accepts every event, and that queue is removed again.
//
// It costs the server their memory for a moment; where this process dies, for MEASURE_EXPIRY_S.
import { randomUUID } from 'node:crypto';
import type { MeasuredSize } from '../ingest/queue-admin.ts';
import { RETENTION_MS } from '../ingest/queue.ts';
import { acceptedOf, type IndexField } from './id-index.ts';
import type { Reply } from './reply.ts';
import { Script, type Argument, type Sender } from './script.ts';

/** Events of one call, as under a usual load. */
const CALL_EVENTS = 8;
const MEASURE_EXPIRY_S = 600;
const PRODUCER = 'urn:ingest:producer:measured';

interface MeasuredEvent {
  readonly id: string;
  readonly body: Buffer;
}

/** The name of a stream of its own, for one measurement. */
export const measuredStream = (): string => `ingest-size-${randomUUID()}`;

/** `server` is where `stream` stands; `field` is that of the queue beside which it measures. */
export async function measuredSize(
  server: Sender<Reply>,
  stream: string,
  field: IndexField,
  events: AsyncIterable<MeasuredEvent>,
): Promise<MeasuredSize> {
  const queue = new MeasuredQueue(server, stream, field);
  try {
    let batch: MeasuredEvent[] = [];
    for await (const event of events) {
      batch.push(event);
      if (batch.length === CALL_EVENTS) {
        await queue.accept(batch);
        batch = [];
      }
    }
    if (batch.length > 0) await queue.accept(batch);
    return await queue.measure();
  } finally {
    await queue.forEachKey((key) => ['UNLINK', key]).catch(() => undefined);
  }
}

class MeasuredQueue {
  readonly #server: Sender<Reply>;
  readonly #field: IndexField;
  readonly #stream: string;
  readonly #ids: string;
  readonly #script = new Script('accept.lua', 'entry-name.lua');
  #events = 0;
  #bodyBytes = 0;

  constructor(server: Sender<Reply>, stream: string, field: IndexField) {
    this.#server = server;
    this.#stream = stream;
    this.#ids = `{${stream}}:ids`;
    this.#field = field;
  }

  async accept(batch: readonly MeasuredEvent[]): Promise<void> {
    const command: Argument[] = this.#script.command(this.#stream);
    command.push(String(RETENTION_MS), ...batch.map(({ id }) => this.#field(id, 0)));
    for (const { body } of batch) command.push(PRODUCER, body);
    const accepted = acceptedOf(await this.#script.run(this.#server, command));
    // An id that comes again is no event more.
    for (const [at, { body }] of batch.entries()) {
      if (accepted[at] !== true) continue;
      if (this.#events === 0) await this.forEachKey((key) => ['EXPIRE', key, String(MEASURE_EXPIRY_S)]);
      this.#events += 1;
      this.#bodyBytes += body.length;
    }
  }

  async measure(): Promise<MeasuredSize> {
    const [streamBytes = 0, ...indexBytes] = await this.forEachKey((key) => ['MEMORY', 'USAGE', key, 'SAMPLES', '0']);
    return {
      events: this.#events,
      bodyBytes: this.#bodyBytes,
      streamBytes,
      indexBytes: indexBytes.reduce((sum, bytes) => sum + bytes, 0),
    };
  }

  /** The integers that the server answers for each key: the stream's first. */
  async forEachKey(command: (key: string) => readonly string[]): Promise<number[]> {
    const starts = String((await this.#server.send(['GET', this.#ids])).value() ?? '').split(' ');
    const slices = starts.filter((start) => start !== '').map((start) => `${this.#ids}:${start}`);
    const answers = [];
    for (const key of [this.#stream, this.#ids, ...slices])
      answers.push((await this.#server.send(command(key))).value());
    return answers.map(Number);
  }
}
