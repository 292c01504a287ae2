// Checks the rights of the Redis user on each connection: if a command were refused in the middle of accepting, an
// event could be appended without its id. The commands are listed by hand. Tests run both programs with the rules in
// deploy/install.md, the fewest that pass this check.
import { QueueRefusal, RedisError } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import type { Server } from '../wire/values.ts';
import { GROUP } from './layout.ts';

type Key = '' | 'stream' | 'ids' | 'slice' | 'queue' | 'looked' | 'replays' | 'erased' | 'replicas';
type Right = readonly [command: string, key: Key, rest: string];

const SHARED: readonly Right[] = [
  ['eval', '', 'return 0'],
  ['time', '', ''],
  ['hmget', 'queue', 'id'],
  ['exists', 'queue', ''],
  ['hset', 'queue', 'id x'],
  ['hgetall', 'looked', ''],
  ['hset', 'looked', 'added 0'],
  ['get', 'ids', ''],
  ['set', 'ids', '1'],
  ['del', 'ids', ''],
  ['unlink', 'slice', ''],
  ['hmget', 'replays', 'x'],
  ['zremrangebyscore', 'erased', '0 0'],
  ['xinfo stream', 'stream', ''],
  ['xinfo groups', 'stream', ''],
  ['xgroup create', 'stream', `${GROUP} 0 mkstream`],
  ['xack', 'stream', `${GROUP} 1-1`],
  ['xpending', 'stream', GROUP],
  ['xrange', 'stream', '- +'],
  ['xtrim', 'stream', 'minid 0'],
  ['zcard', 'replicas', ''],
];

const RIGHTS: Readonly<Record<'gateway' | 'consumer', readonly Right[]>> = {
  gateway: [
    ...SHARED,
    ['exists', 'stream', ''],
    ['hmget', 'slice', 'id'],
    ['hget', 'slice', 'id'],
    ['hset', 'slice', 'id x'],
    ['xadd', 'stream', '* body x'],
  ],
  consumer: [
    ...SHARED,
    ['xlen', 'stream', ''],
    ['zcard', 'erased', ''],
    ['zmscore', 'erased', 'x'],
    ['xgroup delconsumer', 'stream', `${GROUP} x`],
    ['xinfo consumers', 'stream', GROUP],
    [`xreadgroup group ${GROUP} x streams`, 'stream', '>'],
    ['xclaim', 'stream', `${GROUP} x 0 1-1`],
    ['zadd', 'replicas', '0 x'],
    ['zscore', 'replicas', 'x'],
    ['zrem', 'replicas', 'x'],
    ['zremrangebyscore', 'replicas', '0 0'],
    ['pexpire', 'replicas', '1'],
  ],
};

const script = new Script('rights.lua');

/** Rejects with a QueueRefusal that names each command and key that the user lacks. */
export async function assertRights(
  server: Server,
  stream: string,
  program: 'gateway' | 'consumer',
  more: readonly Right[] = [],
): Promise<void> {
  const rights = [...RIGHTS[program], ...more].flat();
  // rights.lua only asks, because a refused command would be added to the server's log of refusals.
  const asked = script.run(server, undefined, [stream, ...rights]);
  const missing = await asked.catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code === 'NOPERM') throw lacking(cause.message);
    throw cause;
  });
  if (Array.isArray(missing) && missing.length > 0) throw lacking(missing.join(', '));
}

const lacking = (what: string): QueueRefusal =>
  new QueueRefusal(`the Redis user lacks rights that this program needs: ${what} (deploy/install.md lists the rules)`);
