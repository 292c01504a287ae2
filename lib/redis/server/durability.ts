// Whether a Redis server keeps what it is given: evicting keys or keeping nothing on disk would break a 202's promise.
import type { Server } from './client.ts';
import { RedisError } from '../wire/errors.ts';

/** What is wrong, in words for an operator; nothing when all is well. A server that does not tell counts as a fault. */
export async function durabilityFaults(server: Server): Promise<readonly string[]> {
  const faults: string[] = [];
  const policy = (await info(server, 'memory')).get('maxmemory_policy');
  if (policy === undefined) {
    faults.push(
      'the server does not tell its maxmemory-policy (INFO memory): whether it drops accepted events is unknown',
    );
  } else if (policy !== 'noeviction') {
    faults.push(`maxmemory-policy is ${policy}: Redis may drop accepted events; set it to noeviction`);
  }
  const appends = (await info(server, 'persistence')).get('aof_enabled');
  if (appends === undefined) {
    faults.push(
      'the server does not tell whether it writes an append-only file (INFO persistence): ' +
        'whether it keeps accepted events is unknown',
    );
  } else if (appends === '0') {
    faults.push('the append-only file is off: accepted events are lost with the server; set appendonly yes');
  }
  return faults;
}

/**
 * What is wrong with a server's replicas, for a gateway that waits for so many of them: a fail-over forgets what they
 * had not received.
 */
export async function replicationFaults(server: Server, replicas: number): Promise<readonly string[]> {
  const told = (await info(server, 'replication')).get('connected_slaves');
  if (told === undefined)
    return replicas === 0 ? [] : ['the server does not tell how many replicas it has (INFO replication)'];
  const connected = Number(told);
  if (connected >= replicas && (connected === 0 || replicas > 0)) return [];
  return [
    replicas === 0
      ? `the server has replicas (${connected}) and INGEST_QUEUE_REPLICAS is 0: ` +
        'a fail-over loses accepted events that no replica has received'
      : `${connected} replicas are connected and INGEST_QUEUE_REPLICAS is ${replicas}: ` +
        'no event is accepted until there are as many',
  ];
}

/** The fields of a section; none where the server refuses to tell. */
async function info(server: Server, section: string): Promise<Map<string, string>> {
  const text = await server.send(['INFO', section]).catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code !== 'LOADING') return '';
    throw cause;
  });
  const fields = new Map<string, string>();
  for (const line of String(text).split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}
