// The longest argument that a server takes (`proto-max-bulk-len`). It refuses a longer one by closing the connection,
// and with it the commands of all others, so the limit is known before an event is sent.
import type { Clock } from '../../process/clock.ts';
import { RedisError, refusedAs } from '../wire/errors.ts';
import type { Server } from '../wire/values.ts';
import { askOnce } from './ask-once.ts';

/** Every server takes an argument of this length. */
const LEAST = 1 << 20;

/** Returns the limit, or `wanted` if that is lower. Without the right to read the limit, it may return LEAST. */
export async function argumentBytesMax(server: Server, uri: string, wanted: number, clock: Clock): Promise<number> {
  if (wanted <= LEAST) return wanted;
  const setting = await server.send(['CONFIG', 'GET', 'proto-max-bulk-len']).catch(refusedAs([]));
  const [, limit] = setting as readonly string[];
  if (limit !== undefined) return Math.min(wanted, Number(limit));
  if (await takes(uri, wanted, clock)) return wanted;
  // Either the argument is too long, or the server has become unavailable.
  if (await takes(uri, LEAST, clock)) return LEAST;
  throw new Error('the server does not answer');
}

/** The server reads a command before it refuses the number of its arguments. */
const takes = (uri: string, bytes: number, clock: Clock): Promise<boolean> =>
  askOnce({ clock }, uri, (server) => server.send(['TIME', Buffer.alloc(bytes)])).then(
    () => true,
    (cause: unknown) => cause instanceof RedisError && cause.message.includes('wrong number of arguments'),
  );
