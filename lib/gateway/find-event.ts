// GET /events/{id}: where one of the caller's own events stands.
//
// It looks in the warehouse, then in the queue's index, so an event is found from its 202 on and after the queue's 24
// hours too. Another producer's id looks like an unknown one. A warehouse that cannot be asked makes it 503, whatever the queue
// knows: an event that was once called landed is not called accepted again. So does a queue that cannot be asked, unless the
// warehouse knows the id: never a false 404.
import { isEventId } from '../ingest/event.ts';
import type { Queue } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import { decodeParameter } from '../http/router.ts';
import { JSON_TYPE, problem, refusalOf, type Challenge, type GatewayAnswer } from './answers.ts';
import type { Authority } from '../identity/authority.ts';
import type { Exchange } from './exchange.ts';
import type { LookUpTurns } from './look-up-turns.ts';

export interface FindEventOptions {
  readonly queue: Queue;
  /** Undefined: look-ups cover the queue's 24 hours. */
  readonly warehouse: Pick<Warehouse, 'find'> | undefined;
  readonly authority: Authority;
  readonly challenge: Challenge;
  readonly turns: LookUpTurns;
}

const UNAVAILABLE = problem('queueUnavailable', 'not every place where the event can be could be asked');
const OVERLOADED = problem('queueOverloaded', 'too many look-ups wait');
const NOT_FOUND = problem('eventNotFound', 'no event has this id');

/** `parameter` is the id as it stood in the path. */
export async function findEvent(
  options: FindEventOptions,
  exchange: Exchange,
  parameter: string,
): Promise<GatewayAnswer> {
  const verdict = await options.authority.judge(exchange.connection, exchange.request);
  if (verdict.kind !== 'producer') return refusalOf(verdict, options.challenge, exchange.request.authorization);
  exchange.connection.know();
  const id = decodeParameter(parameter);
  if (id === undefined || !isEventId(id)) return NOT_FOUND;
  if (!(await options.turns.take())) return OVERLOADED;
  try {
    return exchange.request.gone ? NOT_FOUND : await lookUp(options, id, verdict.producer);
  } finally {
    options.turns.giveBack();
  }
}

async function lookUp({ queue, warehouse }: FindEventOptions, id: string, producer: string): Promise<GatewayAnswer> {
  const landed = await warehouse?.find(id, producer);
  if (landed?.kind === 'landed') {
    const { text, acceptedAtMs, landedAtMs, traceparent } = landed;
    return found(id, 'landed', acceptedAtMs, { landedAt: timestamp(landedAtMs), traceparent }, text);
  }
  if (landed?.kind === 'rejected') {
    const { body, acceptedAtMs, rejectedAtMs, reason, traceparent } = landed;
    const later = { rejectedAt: timestamp(rejectedAtMs), reason, traceparent };
    return found(id, 'rejected', acceptedAtMs, later, body.toString('utf8'));
  }
  if (landed?.kind === 'unavailable') return UNAVAILABLE;
  const queued = await queue.find(id, producer);
  if (queued.kind === 'found') {
    const { text, acceptedAtMs, traceparent } = queued.event;
    return found(id, 'accepted', acceptedAtMs, { traceparent }, text);
  }
  return queued.kind === 'unavailable' ? UNAVAILABLE : NOT_FOUND;
}

/** The event's own text goes into the answer as it is: what was accepted is shown byte for byte. */
function found(
  id: string,
  status: 'accepted' | 'landed' | 'rejected',
  acceptedAtMs: number,
  later: Readonly<Record<string, string | undefined>>,
  text: string,
): GatewayAnswer {
  const event = parsed(text);
  const head = JSON.stringify({ id, type: typeOf(event), status, acceptedAt: timestamp(acceptedAtMs), ...later });
  // A rejected body may be no JSON; it is shown as a string then.
  const shown = event === undefined ? JSON.stringify(text) : text;
  return { status: 200, contentType: JSON_TYPE, body: `${head.slice(0, -1)},"event":${shown}}` };
}

/** RFC 3339, UTC, milliseconds. */
const timestamp = (ms: number): string => new Date(ms).toISOString();

function typeOf(event: unknown): string | undefined {
  const type: unknown = typeof event === 'object' && event !== null && 'type' in event ? event.type : undefined;
  return typeof type === 'string' ? type : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
