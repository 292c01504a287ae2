// COPY ... FROM STDIN in PostgreSQL's binary format, for new rows.
//
// Fact: COPY writes a page of rows in one step with one log record; INSERT ... ON CONFLICT writes each row
// separately, after a speculative token. For an event of 300 bytes, COPY takes 5 µs of a server core, and INSERT
// takes 9 µs. pg has no COPY, but accepts any query object that handles the protocol's messages, as pg-query-stream
// does.
//
// Formats: the manual's "COPY", section "Binary Format", and "Message Formats", CopyData and CopyDone.
import type pg from 'pg';
import type { LandingEvent } from '../ingest/warehouse.ts';
import type { TimeLimits } from '../process/time-limits.ts';
import { READ_TIMEOUT } from './sessions.ts';

const COPY = 'COPY events (id, type, producer, accepted_at, landed_at, body, traceparent) FROM STDIN (FORMAT binary)';
const COLUMNS = 7;
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const TRAILER = -1;
/** The statement, as the message Query. */
const QUERY = Buffer.from(`Q....${COPY}\0`);
QUERY.writeInt32BE(QUERY.length - 1, 1);
/** Bytes around the rows: the statement, the header of CopyData, the signature, the trailer and CopyDone. */
const FRAME_BYTES = QUERY.length + 1 + 4 + SIGNATURE.length + 2 + 1 + 4;
const NULL = -1;
/** PostgreSQL stores microseconds since 2000-01-01 UTC. */
const EPOCH_MS = Date.UTC(2000, 0, 1);
const timestamp = (valueMs: number): bigint => BigInt(valueMs - EPOCH_MS) * 1000n;
const TIMESTAMP_BYTES = 8;
/** Bytes of a row without its text values: the number of columns, the length of each, and two times. */
const ROW_BYTES = 2 + 4 * COLUMNS + 2 * TIMESTAMP_BYTES;
const COPY_DATA = 0x64; // d
const COPY_DONE = 0x63; // c
/** The maximum number of UTF-8 bytes per UTF-16 unit. */
const UNIT_BYTES_MAX = 3;

/**
 * Copies rows into `events` in one transaction and returns their number. Rejects with the server's error, or after
 * `timeoutMs`.
 */
export function copyEvents(
  client: pg.PoolClient,
  events: readonly LandingEvent[],
  landedAtMs: number,
  { limits, timeoutMs }: { readonly limits: TimeLimits; readonly timeoutMs: number },
): Promise<number> {
  const messages = copyMessages(events, landedAtMs);
  return new Promise((resolve, reject) => {
    const limit = limits.add(timeoutMs, () => reject(new Error(READ_TIMEOUT)));
    client.query(
      new CopyIn(messages, (cause, rows) => {
        limits.remove(limit);
        if (cause instanceof Error) reject(cause);
        else resolve(rows);
      }),
    );
  });
}

/** pg calls these methods with the server's messages. */
class CopyIn implements pg.Submittable {
  readonly #messages: Buffer;
  #rows = 0;
  callback: (cause: Error | null | undefined, rows: number) => void;

  constructor(messages: Buffer, callback: CopyIn['callback']) {
    this.#messages = messages;
    this.callback = callback;
  }

  /**
   * Fact: a session that waits for rows holds its locks, and no server timeout ends it. Choice: the rows follow the
   * statement in one write; if the statement fails, the server ignores them (manual, "COPY Operations"). Effect: a
   * frozen consumer does not block ALTER TABLE, and each batch saves one round trip.
   */
  submit(connection: pg.Connection): void {
    connection.stream.write(this.#messages);
  }

  handleCopyInResponse(): void {}

  /** `text` is `COPY <number of rows>`. */
  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#rows = Number(text.split(' ')[1]);
  }

  handleReadyForQuery(): void {
    this.callback(null, this.#rows);
  }

  handleError(cause: Error): void {
    this.callback(cause, 0);
  }
}

/** Returns the statement, one CopyData message with all rows, and CopyDone. */
function copyMessages(events: readonly LandingEvent[], landedAtMs: number): Buffer {
  let bytesMax = FRAME_BYTES;
  for (const { id, type, producer, body, traceparent = '' } of events) {
    const units = id.length + type.length + producer.length + traceparent.length;
    bytesMax += ROW_BYTES + UNIT_BYTES_MAX * units + body.length;
  }
  const messages = Buffer.allocUnsafe(bytesMax);
  const landedAt = timestamp(landedAtMs);
  const start = QUERY.copy(messages);
  let at = start + 1 + 4;
  at += SIGNATURE.copy(messages, at);
  for (const { id, type, producer, acceptedAtMs, body, traceparent } of events) {
    at = messages.writeInt16BE(COLUMNS, at);
    at = writeText(messages, id, at);
    at = writeText(messages, type, at);
    at = writeText(messages, producer, at);
    at = messages.writeBigInt64BE(timestamp(acceptedAtMs), messages.writeInt32BE(TIMESTAMP_BYTES, at));
    at = messages.writeBigInt64BE(landedAt, messages.writeInt32BE(TIMESTAMP_BYTES, at));
    at = messages.writeInt32BE(body.length, at);
    at += body.copy(messages, at);
    at = traceparent === undefined ? messages.writeInt32BE(NULL, at) : writeText(messages, traceparent, at);
  }
  at = messages.writeInt16BE(TRAILER, at);
  messages[start] = COPY_DATA;
  messages.writeInt32BE(at - start - 1, start + 1);
  messages[at] = COPY_DONE;
  return messages.subarray(0, messages.writeInt32BE(4, at + 1));
}

function writeText(to: Buffer, text: string, at: number): number {
  const bytes = to.write(text, at + 4, 'utf8');
  return to.writeInt32BE(bytes, at) + bytes;
}
