// `GET /events/{id}`: the state of one of the caller's own events.
//
// The handler asks the warehouse, then the queue, so it finds an event from its 202 on, even after the queue's 24
// hours. If neither knows the id, it asks the warehouse again. It answers 404 to another producer's id. It answers
// 503 if the warehouse is unavailable, because an event must not change back from landed to accepted, or if the queue
// is unavailable and the warehouse does not know the id, because a 404 could be wrong.
import { problem } from '../ingest/errors.ts';
import { isErased, namesIn } from '../ingest/erased.ts';
import { isEventId } from '../ingest/event.ts';
import type { Queue } from '../ingest/queue.ts';
import type { Warehouse } from '../ingest/warehouse.ts';
import { decodeParameter } from '../http/router.ts';
import { JSON_TYPE, type GatewayAnswer } from './answers.ts';
import type { Exchange } from './exchange.ts';
import type { ProducerChecks } from './producer-checks.ts';
import type { ProducerTurns, TurnLimits } from './producer-slots.ts';

export interface FindEventOptions {
  readonly queue: Queue;
  /** `undefined` limits lookups to the queue's 24 hours. */
  readonly warehouse: Pick<Warehouse, 'find'> | undefined;
  readonly checks: ProducerChecks;
  readonly turns: ProducerTurns;
}

export const LOOK_UP_TURNS: TurnLimits = { atATime: 2, waitMs: 5_000, waitingMax: Number.POSITIVE_INFINITY };

const UNAVAILABLE = problem('lookUpUnavailable', 'the queue or the warehouse could not be queried');
const OVERLOADED = problem('lookUpUnavailable', 'too many look-ups wait');
const NOT_FOUND = problem('eventNotFound', 'no event has this id');

/** `parameter` is the id as sent in the path. */
export async function findEvent(
  options: FindEventOptions,
  exchange: Exchange,
  parameter: string,
): Promise<GatewayAnswer> {
  const { authorization } = exchange.request.head;
  const { authority, refusal, quotas } = options.checks;
  const verdict = await authority.judge(exchange.connection, authorization);
  if (verdict.kind !== 'producer') return refusal(verdict, authorization);
  const over = quotas.lookUpRefusal(verdict.producer, exchange);
  if (over !== undefined) return over;
  const id = decodeParameter(parameter);
  if (id === undefined || !isEventId(id)) return NOT_FOUND;
  const { producer } = verdict;
  const answer = await options.turns.run(producer, async () =>
    exchange.connection.isGone ? NOT_FOUND : lookUp(options, id, producer),
  );
  return answer === 'late' ? OVERLOADED : answer;
}

async function lookUp({ queue, warehouse }: FindEventOptions, id: string, producer: string): Promise<GatewayAnswer> {
  const inWarehouse = async (): Promise<GatewayAnswer | undefined> => shown(await warehouse?.find(id, producer), id);
  const row = await inWarehouse();
  if (row !== undefined) return row;
  const queued = await queue.find(id, producer);
  if (queued.kind === 'unavailable') return UNAVAILABLE;
  // An event older than the queue's retention may have landed and left the queue between the two queries.
  if (queued.kind !== 'found') return (await inWarehouse()) ?? NOT_FOUND;
  const { body, acceptedAtMs, traceparent } = queued.event;
  const { type } = namesIn(body);
  return found({ id, type, status: 'accepted', acceptedAt: timestamp(acceptedAtMs), traceparent }, body);
}

function shown(row: Awaited<ReturnType<Warehouse['find']>> | undefined, id: string): GatewayAnswer | undefined {
  if (row?.kind === 'landed') {
    const { text, type, acceptedAtMs, landedAtMs, traceparent } = row;
    const times = { acceptedAt: timestamp(acceptedAtMs), landedAt: timestamp(landedAtMs) };
    return found({ id, type, status: 'landed', ...times, traceparent }, Buffer.from(text));
  }
  if (row?.kind === 'rejected') {
    const { body, acceptedAtMs, rejectedAtMs, reason, traceparent } = row;
    const times = { acceptedAt: timestamp(acceptedAtMs), rejectedAt: timestamp(rejectedAtMs) };
    const about = { id, type: namesIn(body).type, status: 'rejected', ...times, reason, traceparent };
    // A rejected body that is not JSON is returned as a string. Invalid UTF-8 becomes replacement characters.
    const text = body.toString();
    return found(about, Buffer.from(isJson(text) ? text : JSON.stringify(text)));
  }
  return row?.kind === 'unavailable' ? UNAVAILABLE : undefined;
}

/** Answers with `about` as JSON and the event byte for byte. The event may be large, so it is not copied. */
function found(about: Readonly<Record<string, string | undefined>>, event: Buffer): GatewayAnswer {
  const head = `${JSON.stringify(isErased(event) ? { ...about, status: 'erased' } : about).slice(0, -1)},"event":`;
  return { status: 200, contentType: JSON_TYPE, body: [Buffer.from(head), event, END], isOnlyCopy: true };
}

const END = Buffer.from('}');

const timestamp = (ms: number): string => new Date(ms).toISOString();

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
