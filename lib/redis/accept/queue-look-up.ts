// Looks an accepted event up in the queue, by its id.
import { namesIn } from '../../ingest/erased.ts';
import type { QueueLookup } from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { decoded } from '../stream/body-encoding.ts';
import { withTimeout } from '../wire/deadline.ts';
import { areOf } from '../stream/id-index.ts';
import type { QueueDialect } from './queue-dialect.ts';

/** Parts of find.lua's answer for each entry. */
const PARTS = 6;

/** Never rejects: without an answer in time the look-up is `unavailable`. */
export async function lookUp(
  dialect: QueueDialect,
  clock: Clock,
  id: string,
  producer: string,
  timeoutMs: number,
  log: Log,
): Promise<QueueLookup> {
  try {
    const reply = await withTimeout(clock, dialect.find(id, producer), timeoutMs);
    // A dispatcher has compared the ids itself, and gives two or three parts.
    for (let parts = reply.array() ?? 0; parts > 0; parts -= PARTS) {
      const acceptedAtMs = Number.parseInt(reply.text(), 10);
      const bytes = reply.bytes();
      const traceparent = parts > 2 ? reply.text() : '';
      const event = { acceptedAtMs, traceparent: traceparent === '' ? undefined : traceparent };
      if (parts < PARTS) return { kind: 'found', event: { ...event, body: bytes } };
      const body = decoded(bytes, reply.text(), dialect.bodyBytesMax());
      const [noted, digests] = [reply.utf8(), reply.text()];
      if (body === undefined) return { kind: 'unavailable' };
      const isThis = digests === '' ? (noted === '' ? namesIn(body).id : noted) === id : areOf(digests, id);
      if (isThis) return { kind: 'found', event: { ...event, body } };
    }
    return { kind: 'unknown' };
  } catch (cause) {
    log.debug({ err: cause }, 'look-up failed');
    return { kind: 'unavailable' };
  }
}
