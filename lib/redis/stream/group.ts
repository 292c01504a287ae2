// The consumer group of a stream. The first program creates it at the stream's beginning, before it uses the stream. A
// group that was destroyed by hand is created again by the consumer or with the next connection.
import { RedisError } from '../wire/errors.ts';
import { fieldsOf, type RedisValue } from '../wire/reply.ts';
import { Script, type Server } from '../wire/script.ts';
import { GROUP } from './layout.ts';

const script = new Script('join.lua');

/** Creates the group if it is missing. Resolves with true if it was. */
export async function makeGroup(server: Server, stream: string): Promise<boolean> {
  return (await script.run(server, [...script.command(stream), GROUP])) === 1;
}

/**
 * The same for a new connection. It reads first, because a server that refuses writes allows that. Resolves with true
 * if the group has read nothing yet.
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
