// `size FILE`: what the reader's own events take of the queue's memory, measured on the queue's server, and what that
// means for rates and for servers. The queue keeps every event for its retention, landed or not.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { parseEvent } from '../ingest/event.ts';
import { RETENTION_MS } from '../ingest/queue.ts';
import { UsageError } from './command-line.ts';
import { OUTCOME, printJson, type Outcome, type Session } from './session.ts';
import { bytesText, counted, countText, table } from './text.ts';

/** The first ones of a file are enough to tell, and as many as a live server may be given. */
const EVENTS_MAX = 10_000;
const BYTES_MAX = 64 << 20;
/** A stream takes some 4.8 kB for itself, which is 2 % of so many bytes. */
const STREAM_BYTES_MIN = 256 << 10;
const RETENTION_S = RETENTION_MS / 1_000;
const RATES = [10, 100, 1_000, 2_000, 5_000];
const GIB = 2 ** 30;

export async function sizeFile(
  session: Pick<Session, 'queue' | 'json' | 'print' | 'tell'>,
  file: string,
): Promise<Outcome> {
  const skipped = { count: 0 };
  const size = await session.queue.measure(eventsOf(file, skipped));
  if (skipped.count > 0) session.tell(`${countText(skipped.count)} lines are no events and were left out`);
  if (size.events === 0) {
    session.tell('the file has no event');
    if (session.json) printJson(session, { events: 0 });
    return OUTCOME.nothing;
  }
  if (size.streamBytes < STREAM_BYTES_MIN)
    session.tell('so few events do not tell: what a stream takes for itself makes the result too high; give thousands');
  const each = (bytes: number): number => Math.round(bytes / size.events);
  const bytes = each(size.streamBytes + size.indexBytes);
  if (session.json) {
    const perEvent = {
      body: each(size.bodyBytes),
      stream: each(size.streamBytes),
      index: each(size.indexBytes),
      total: bytes,
    };
    const gibPerEventASecond = (bytes * RETENTION_S) / GIB;
    session.print(`${JSON.stringify({ events: size.events, bytesPerEvent: perEvent, gibPerEventASecond })}\n`);
    return OUTCOME.done;
  }
  const lines = [
    `${counted(size.events, 'event')}, ${countText(each(size.bodyBytes))} bytes each: ${countText(bytes)} bytes of the queue's memory for each`,
    `(${countText(each(size.streamBytes))} in the stream, ${countText(each(size.indexBytes))} in the id index)`,
    '',
    ...table(
      [
        ['events a second', 'memory for 24 hours'],
        ...RATES.map((rate) => [countText(rate), bytesText(rate * RETENTION_S * bytes)]),
      ],
      [0, 1],
    ),
    '',
    `1 GiB holds ${(GIB / (RETENTION_S * bytes)).toFixed(1)} events a second. Set maxmemory a third higher, and give the machine half as much again.`,
  ];
  session.print(`${lines.join('\n')}\n`);
  return OUTCOME.done;
}

/** The events of a file, one on each line; `-` is standard input. */
async function* eventsOf(
  file: string,
  skipped: { count: number },
): AsyncGenerator<{ readonly id: string; readonly body: Buffer }> {
  const input = file === '-' ? process.stdin : createReadStream(file);
  let count = 0;
  let bytes = 0;
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (line === '') continue;
      const body = Buffer.from(line);
      const event = parseEvent(body);
      if (!event.valid) {
        skipped.count += 1;
        continue;
      }
      yield { id: event.id, body };
      count += 1;
      bytes += body.length;
      if (count === EVENTS_MAX || bytes >= BYTES_MAX) return;
    }
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause)) throw cause;
    throw new UsageError(`${file}: expected a readable file (${String(cause.code)})`, { cause });
  } finally {
    input.destroy();
  }
}
