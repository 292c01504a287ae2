// The consumer group of a stream: made at the stream's first use, from its beginning, by whichever program comes first.
//
// Invariant: no program works with a stream before the group exists. One that is destroyed by hand is made again by the
// consumer that misses it, or with the next connection; until then nothing counts as landed.
import { RedisError } from '../wire/errors.ts';
import { fieldsOf, type RedisValue } from '../wire/reply.ts';
import { Script, type Server } from '../wire/script.ts';
import { GROUP } from './layout.ts';

const script = new Script('join.lua');

/** Makes the group where it is missing; gives whether it was. */
export async function makeGroup(server: Server, stream: string): Promise<boolean> {
  return (await script.run(server, [...script.command(stream), GROUP])) === 1;
}

/**
 * The same for each new connection: a plain read first, which works where a write is refused. Gives whether the group
 * has read nothing yet.
 */
export async function ensureGroup(server: Server, stream: string): Promise<boolean> {
  const groups = await server.send(['XINFO', 'GROUPS', stream]).catch((cause: unknown) => {
    if (cause instanceof RedisError && /no such key/.test(cause.message)) return [];
    throw cause;
  });
  const group = (groups as readonly (readonly RedisValue[])[]).map(fieldsOf).find((one) => one.get('name') === GROUP);
  if (group === undefined) await makeGroup(server, stream);
  return group === undefined || group.get('last-delivered-id') === '0-0';
}
