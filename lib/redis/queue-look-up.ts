// Looks an accepted event up in the queue, by its id.
import type { QueueLookup } from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import { decoded } from './body-encoding.ts';
import { withTimeout } from './deadline.ts';
import type { QueueDialect } from './queue-dialect.ts';

/** Never rejects: without an answer in time the look-up is `unavailable`. */
export async function lookUp(
  { find, field }: QueueDialect,
  id: string,
  producer: string,
  timeoutMs: number,
  log: Log,
): Promise<QueueLookup> {
  const command = find.begin();
  command.push(field(id), producer);
  try {
    const reply = await withTimeout(find.run(command), timeoutMs);
    const parts = reply.array();
    if (parts === undefined) return { kind: 'unknown' };
    const acceptedAtMs = Number.parseInt(reply.text(), 10);
    const bytes = reply.bytes();
    const traceparent = parts > 2 ? reply.text() : '';
    const body = decoded(bytes, parts > 3 ? reply.text() : undefined);
    return {
      kind: 'found',
      event: { body, acceptedAtMs, traceparent: traceparent === '' ? undefined : traceparent },
    };
  } catch (cause) {
    log.debug({ err: cause }, 'look-up failed');
    return { kind: 'unavailable' };
  }
}
