// The consumer group of a stream. The first program creates it at the beginning of the stream. If the group was
// destroyed by hand, the consumer or the next connection creates it again.
import { QueueRefusal, type RedisError, refusedAs } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';
import type { Log } from '../../process/log.ts';
import { GROUP, STREAM, TWO_STREAMS } from './layout.ts';

/** The files that a script needs for group_place. */
export const PLACE_FILES = ['fields.lua', 'server-figures.lua', 'count-entries.lua', 'group-place.lua'] as const;

const script = new Script('join.lua');
const length = new Script('length-if-allowed.lua');

/** Creates the group if it is missing. Resolves with true if it was missing. */
export async function makeGroup(server: Server, stream: string): Promise<boolean> {
  return (await script.run(server, stream, [GROUP])) === 1;
}

/** Reads first, because a server that refuses writes allows reads. Returns true if the group has read nothing. */
export async function ensureGroup(server: Server, stream: string): Promise<boolean> {
  const groups = (await xinfo(server, 'GROUPS', stream)) as readonly (readonly RedisValue[])[];
  const group = groups.map(fieldsOf).find((one) => one.get('name') === GROUP);
  if (group === undefined) await makeGroup(server, stream);
  return group === undefined || group.get('last-delivered-id') === '0-0';
}

/** Logs events of the server that land only with another form of INGEST_QUEUE_URI, because they may wait unnoticed. */
export async function warnOfOthers(server: Server, stream: string, log: Log): Promise<void> {
  const others = stream === STREAM ? TWO_STREAMS : TWO_STREAMS.includes(stream) ? [STREAM] : [];
  for (const other of others) {
    const events = Number(await length.run(server, undefined, [other]).catch(refusedAs(0)));
    const form = other === STREAM ? 'redis://' : 'dispatcher://';
    const text = `the server also holds the queue ${other}: its events land only with INGEST_QUEUE_URI=${form}…`;
    if (events > 0) log.warn({ events }, text);
  }
}

const LAST_NAME = '18446744073709551615-18446744073709551615';

export const exhausted = (stream: string): string =>
  `an entry of ${stream} had the last possible name, so Redis adds no other: ` +
  'see "A name that ends the stream" in the runbook';

/** Rejects with a QueueRefusal if no entry can be added. */
export async function assertAppendable(server: Server, stream: string): Promise<void> {
  const last = fieldsOf(await xinfo(server, 'STREAM', stream)).get('last-generated-id');
  if (last === LAST_NAME) throw new QueueRefusal(exhausted(stream));
}

/** Returns the reply of XINFO; empty if there is no such stream or group. */
export async function xinfo(server: Server, ...args: readonly string[]): Promise<readonly RedisValue[]> {
  const isMissing = ({ code, message }: RedisError): boolean => code === 'NOGROUP' || message.includes('no such key');
  const reply = await server.send(['XINFO', ...args]).catch(refusedAs([], isMissing));
  return reply as readonly RedisValue[];
}
