// Checks the rights of the Redis user and the types of the queue's keys on each connection: if a command were refused
// in the middle of accepting, an event could be appended without its id. The commands are listed by hand. Tests run the
// programs with the rules in deploy/install.md, the fewest that pass this check. ingest-admin needs only some of its
// rights for each command, so it checks them when a command is refused.
import { isForbidden, QueueRefusal, RedisError } from '../wire/errors.ts';
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
  'hmget K:looked at',
  'get K:ids',
  'set K:ids 1',
  'unlink K:ids:1',
  'hmget K:replays x',
  'xinfo stream S',
  'xinfo groups S',
  `xgroup create S ${GROUP} 0 mkstream`,
  `xack S ${GROUP} 1-1`,
  `xpending S ${GROUP}`,
  'xrange S - +',
];

const TRIMMING = [
  'hgetall K:looked',
  'hset K:looked added 0',
  'del K:ids',
  'zcard K:erased',
  'zremrangebyscore K:erased 0 0',
  'xtrim S minid 0',
  'zcard K:replicas',
];

type Program = 'gateway' | 'consumer' | 'admin';

const RIGHTS: Readonly<Record<Program, readonly string[]>> = {
  gateway: [...TRIMMING, 'exists S', 'hmget K:ids:1 id', 'hget K:ids:1 id', 'hset K:ids:1 id x', 'xadd S * body x'],
  consumer: [
    ...TRIMMING,
    'xlen S',
    'zmscore K:erased x',
    `xgroup delconsumer S ${GROUP} x`,
    `xgroup setid S ${GROUP} 0`,
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
  admin: [
    'hget K:looked required',
    'hget K:ids:1 id',
    'hset K:ids:1 id x',
    'hdel K:ids:1 id',
    'hexists K:replays x',
    'hset K:replays x x',
    'zadd K:erased 0 x',
    'zrange K:erased 0 0',
    'zscore K:erased x',
    'zrange K:replicas 0 0',
    'zscore K:replicas x',
    'xlen S',
    'memory usage S',
    'xadd S * body x',
    'xdel S 1-1',
    'xsetid S 1-1',
    `xclaim S ${GROUP} x 0 1-1`,
    `xinfo consumers S ${GROUP}`,
  ],
};

const script = new Script('rights.lua');

/** Rejects with a QueueRefusal that names each command and key that the user lacks, or each key of another type. */
export async function assertRights(
  server: Server,
  stream: string,
  program: Program,
  more: readonly string[] = [],
): Promise<void> {
  const { missing, types } = await checked(server, stream, [...RIGHTS[program], ...more]);
  if (missing.length > 0)
    throw new QueueRefusal(
      `the Redis user lacks rights that this program needs: ${missing.join(', ')} (deploy/install.md lists the rules)`,
    );
  if (types !== undefined) throw new QueueRefusal(types);
}

/** Names the keys of another type, if there are any and the user of ingest-admin has all of its rights. */
export async function otherTypes(server: Server, stream: string): Promise<string | undefined> {
  return (await checked(server, stream, RIGHTS.admin)).types;
}

async function checked(server: Server, stream: string, program: readonly string[]) {
  const commands = [...SHARED, ...program].map((one) =>
    one.replace(/ S\b/, ` ${stream}`).replace(/ K:/, ` ${keyOf(stream, '')}`),
  );
  const reply = await script.run(server, undefined, [stream, ...commands]).catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code === 'NOPERM') return [[cause.message], []];
    throw cause;
  });
  const [missing, others] = reply as readonly [readonly string[], readonly string[]];
  const keys = others.toSorted().join(', ');
  const types = `other programs write to keys of the queue, which have the wrong type: ${keys} (rename them)`;
  return { missing, types: keys === '' ? undefined : types };
}

/** Rejects with the failure of a command of ingest-admin. If it was forbidden, names all missing rights or the keys. */
export async function explained(server: Server, stream: string, cause: unknown): Promise<never> {
  if (isForbidden(cause)) await assertRights(server, stream, 'admin');
  throw cause;
}
