// GET /events/{id}: where one of the caller's own events stands.
//
// It looks in the warehouse, then in the queue's index, so an event is found from its 202 on and after the queue's 24
// hours too. Another producer's id looks like an unknown one. A warehouse that cannot be asked makes it 503, whatever the queue
// knows: an event that was once called landed is not called accepted again. So does a queue that cannot be asked, unless the
// warehouse knows the id: never a false 404.
import { isEventId } from '../ingest/event.ts';
import type { Queue, QueuedEvent } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import { decodeParameter } from '../http/router.ts';
import { JSON_TYPE, problem } from './answers.ts';
import { refuseVerdict } from './accept-event.ts';
import type { Authority } from '../identity/authority.ts';
import type { Exchange } from './exchange.ts';

export interface FindEventOptions {
  readonly queue: Queue;
  /** Undefined: look-ups cover the queue's 24 hours. */
  readonly warehouse: Pick<Warehouse, 'find'> | undefined;
  readonly authority: Authority;
}

const UNAVAILABLE = problem('queueUnavailable', 'not every place where the event can be could be asked');

/** `parameter` is the id as it stood in the path. */
export async function findEvent(options: FindEventOptions, exchange: Exchange, parameter: string): Promise<void> {
  const verdict = await options.authority.judge(exchange.connection, exchange.request);
  if (refuseVerdict(exchange, verdict)) return;
  const id = decodeParameter(parameter);
  if (id === undefined || !isEventId(id)) return exchange.refuse('eventNotFound', 'no event has this id');
  const landed = await options.warehouse?.find(id, verdict.producer);
  if (landed?.kind === 'landed') {
    const { text, acceptedAtMs, landedAtMs } = landed;
    return found(exchange, id, 'landed', acceptedAtMs, { landedAt: timestamp(landedAtMs) }, text);
  }
  if (landed?.kind === 'rejected') {
    const { body, acceptedAtMs, rejectedAtMs, reason } = landed;
    return found(
      exchange,
      id,
      'rejected',
      acceptedAtMs,
      { rejectedAt: timestamp(rejectedAtMs), reason },
      body.toString('utf8'),
    );
  }
  if (landed?.kind === 'unavailable') return exchange.refuseWith('queueUnavailable', UNAVAILABLE);
  const queued = await options.queue.find(id, verdict.producer);
  if (queued.kind === 'found') return inQueue(exchange, id, queued.event);
  if (queued.kind === 'unavailable') return exchange.refuseWith('queueUnavailable', UNAVAILABLE);
  exchange.refuse('eventNotFound', 'no event has this id');
}

function inQueue(exchange: Exchange, id: string, event: QueuedEvent): void {
  found(exchange, id, 'accepted', event.acceptedAtMs, {}, event.text);
}

/** The event's own text goes into the answer as it is: what was accepted is shown byte for byte. */
function found(
  exchange: Exchange,
  id: string,
  status: 'accepted' | 'landed' | 'rejected',
  acceptedAtMs: number,
  later: Readonly<Record<string, string>>,
  text: string,
): void {
  const head = JSON.stringify({ id, type: typeOf(text), status, acceptedAt: timestamp(acceptedAtMs), ...later });
  exchange.write(200, JSON_TYPE, `${head.slice(0, -1)},"event":${asJson(text)}}`);
}

/** RFC 3339, UTC, milliseconds. */
const timestamp = (ms: number): string => new Date(ms).toISOString();

function typeOf(text: string): string | undefined {
  const value = parsed(text);
  const type: unknown = typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined;
  return typeof type === 'string' ? type : undefined;
}

/** A quarantined body may be no JSON; it is shown as a string then. */
function asJson(text: string): string {
  return parsed(text) === undefined ? JSON.stringify(text) : text;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
