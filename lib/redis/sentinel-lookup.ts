// Which server is the master that Sentinel watches, now.
//
// All sentinels are asked, and what most of those say that answer counts: one that is cut off from the others, or has not heard of
// a fail-over yet, does not mislead. The connection itself makes sure that the server says to be a master (client.ts).
//
// Fact: after a planned fail-over the old master is told only 8 to 10 s later that it is none any more, and takes writes until
// then, which are lost (Redis 7.0, SENTINEL FAILOVER). Choice: a connection looks every WATCH_MS whether its server is the master still.
//
// A sentinel is asked without the user and password of the URI, which are the master's, and with them only where it wants some.
import { askOnce } from './ask-once.ts';
import type { MasterLookup, Server } from './client.ts';
import type { ClusterAddress } from './cluster-map.ts';
import { RedisError } from './errors.ts';

const WATCH_MS = 500;
/** So long an answer serves all connections of a process. */
const FRESH_MS = 100;

export function sentinelLookup(address: ClusterAddress): MasterLookup {
  let asking: Promise<string> | undefined;
  let askedMs = Number.NEGATIVE_INFINITY;
  const find = (): Promise<string> => {
    if (asking !== undefined && performance.now() - askedMs < FRESH_MS) return asking;
    askedMs = performance.now();
    asking = masterByMost(address);
    return asking;
  };
  return { find, watchMs: WATCH_MS };
}

async function masterByMost({ hosts, masterName, uriOf }: ClusterAddress): Promise<string> {
  const ask = async (server: Server): Promise<string> => {
    const found = (await server.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName])) as
      readonly [host: string, port: string] | null;
    if (found === null) throw new Error(`the sentinels know no master of the name ${masterName}`);
    const [host, port] = found;
    return uriOf(host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  };
  const answers = await Promise.allSettled(
    hosts.map((host) =>
      askOnce(uriOf(host, true), ask).catch((cause: unknown) => {
        if (!(cause instanceof RedisError && cause.code === 'NOAUTH')) throw cause;
        return askOnce(uriOf(host).replace(/\/\d+$/, ''), ask);
      }),
    ),
  );
  const votes = new Map<string, number>();
  for (const answer of answers)
    if (answer.status === 'fulfilled') votes.set(answer.value, (votes.get(answer.value) ?? 0) + 1);
  const [most] = [...votes].sort(([, one], [, other]) => other - one);
  if (most !== undefined) return most[0];
  throw answers.find((answer) => answer.status === 'rejected')?.reason;
}
