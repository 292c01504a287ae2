// Which server is the master that Sentinel watches, now.
//
// Sentinels are asked one after the other, each time from another one on, so that one which is cut off from the others does not
// mislead for long; the connection itself makes sure that the server says to be a master (client.ts). A sentinel is asked without
// the user and password of the URI, which are the master's, and with them only where it wants some.
import { askAny } from './ask-once.ts';
import type { MasterLookup, Server } from './client.ts';
import type { ClusterAddress } from './cluster-map.ts';
import { RedisError } from './errors.ts';

export function sentinelLookup({ hosts, masterName, uriOf }: ClusterAddress): MasterLookup {
  let first = 0;
  const ask = async (server: Server): Promise<string> => {
    const found = (await server.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName])) as
      readonly [host: string, port: string] | null;
    if (found === null) throw new Error(`the sentinels know no master of the name ${masterName}`);
    const [host, port] = found;
    return uriOf(host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  };
  return async () => {
    first += 1;
    try {
      return await askAny(
        hosts.map((host) => uriOf(host, true)),
        first,
        ask,
      );
    } catch (cause) {
      if (!(cause instanceof RedisError && cause.code === 'NOAUTH')) throw cause;
      return askAny(
        hosts.map((host) => uriOf(host).replace(/\/\d+$/, '')),
        first,
        ask,
      );
    }
  };
}
