// The master that Sentinel watches. All sentinels are asked, and the most frequent reply decides, because a sentinel
// may be isolated or not know of a failover yet.
//
// Fact (Redis 7.0, SENTINEL FAILOVER): after a planned failover, the old master accepts writes for another 8 to 10 s,
// and those are lost. Choice: a connection checks every WATCH_MS whether its server is still the master.
//
// The user and password in the URI are the master's. A sentinel receives them only if it requires a password.
import type { ClockAndRandom } from '../../process/clock.ts';
import { messageOf } from '../../process/message-of.ts';
import { shared } from '../../process/share-call.ts';
import { askOnce } from './ask-once.ts';
import type { MasterLookup } from './connection.ts';
import type { Server } from '../wire/values.ts';
import { hostAndPort, type ClusterAddress } from './cluster-map.ts';
import { hasCode, RedisError } from '../wire/errors.ts';

const WATCH_MS = 500;
/** Time limit for one sentinel. It is long, because it matters only if the others disagree. */
const ANSWER_TIMEOUT_MS = 2_000;

export function sentinelLookup(address: ClusterAddress, system: ClockAndRandom): MasterLookup {
  return { find: shared(() => masterByMost(address, system)), watchMs: WATCH_MS };
}

async function masterByMost({ hosts, masterName, uriOf }: ClusterAddress, system: ClockAndRandom): Promise<string> {
  const master = async (server: Server): Promise<string> => {
    const reply = await server.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName]);
    if (reply === null) throw new RedisError(`the sentinels know no master named ${masterName}`);
    const address = Array.isArray(reply) ? hostAndPort(String(reply[0]), String(reply[1])) : undefined;
    if (address === undefined) throw new RedisError(`a sentinel names no server: ${JSON.stringify(reply)}`);
    return uriOf(address);
  };
  const ask = (host: string): Promise<string> =>
    askOnce(system, uriOf(host, true), master, ANSWER_TIMEOUT_MS).catch((cause: unknown) => {
      if (!hasCode(cause, 'NOAUTH')) throw cause;
      return askOnce(system, uriOf(host).replace(/\/\d+$/, ''), master, ANSWER_TIMEOUT_MS);
    });
  const votes = new Map<string, number>();
  const causes: unknown[] = [];
  // A frozen or isolated sentinel must not delay the lookup.
  const { promise: majority, resolve } = Promise.withResolvers<void>();
  const answers = hosts.map(async (host) => {
    try {
      const uri = await ask(host);
      const count = (votes.get(uri) ?? 0) + 1;
      votes.set(uri, count);
      if (count > hosts.length / 2) resolve();
    } catch (cause) {
      causes.push(cause);
    }
  });
  await Promise.race([majority, Promise.all(answers)]);
  const [most] = [...votes].sort(([, one], [, other]) => other - one);
  if (most !== undefined) return most[0];
  const reply = causes.find((cause) => cause instanceof RedisError);
  throw reply ?? new Error(`no sentinel answers (${messageOf(causes[0])})`);
}
