// Checks the rights of the Redis user on each connection: if a command were refused in the middle of accepting, an
// event could be appended without its id. The commands are listed by hand. Tests run both programs with the rules in
// deploy/install.md, the fewest that pass this check.
import { QueueRefusal, RedisError } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import type { Server } from '../wire/values.ts';
import { GROUP, keyOf } from './layout.ts';

/** `S` is the stream, and `K:` is the prefix of its other keys. */
const SHARED = [
  'eval return 0',
  'time',
  'hmget K:queue id',
  'exists K:queue',
  'hset K:queue id x',
  'hgetall K:looked',
  'hset K:looked added 0',
  'get K:ids',
  'set K:ids 1',
  'del K:ids',
  'unlink K:ids:1',
  'hmget K:replays x',
  'zremrangebyscore K:erased 0 0',
  'xinfo stream S',
  'xinfo groups S',
  `xgroup create S ${GROUP} 0 mkstream`,
  `xack S ${GROUP} 1-1`,
  `xpending S ${GROUP}`,
  'xrange S - +',
  'xtrim S minid 0',
  'zcard K:replicas',
];

const RIGHTS: Readonly<Record<'gateway' | 'consumer', readonly string[]>> = {
  gateway: ['exists S', 'hmget K:ids:1 id', 'hget K:ids:1 id', 'hset K:ids:1 id x', 'xadd S * body x'],
  consumer: [
    'xlen S',
    'zcard K:erased',
    'zmscore K:erased x',
    `xgroup delconsumer S ${GROUP} x`,
    `xinfo consumers S ${GROUP}`,
    `xreadgroup group ${GROUP} x streams S >`,
    `xclaim S ${GROUP} x 0 1-1`,
    'zadd K:replicas 0 x',
    'zrange K:replicas 0 0',
    'zscore K:replicas x',
    'zrem K:replicas x',
    'zremrangebyscore K:replicas 0 0',
    'pexpire K:replicas 1',
  ],
};

const script = new Script('rights.lua');

/** Rejects with a QueueRefusal that names each command and key that the user lacks. */
export async function assertRights(
  server: Server,
  stream: string,
  program: 'gateway' | 'consumer',
  more: readonly string[] = [],
): Promise<void> {
  const commands = [...SHARED, ...RIGHTS[program], ...more].map((one) =>
    one.replace(/ S\b/, ` ${stream}`).replace(/ K:/, ` ${keyOf(stream, '')}`),
  );
  const asked = script.run(server, undefined, [stream, ...commands]);
  const missing = await asked.catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code === 'NOPERM') return [cause.message];
    throw cause;
  });
  if (!Array.isArray(missing) || missing.length === 0) return;
  throw new QueueRefusal(
    `the Redis user lacks rights that this program needs: ${missing.join(', ')} (deploy/install.md lists the rules)`,
  );
}
