// Whether a Redis server keeps what it is given: evicting keys or keeping nothing on disk would break a 202's promise.
import type { RedisConnection } from './client.ts';
import type { Reply } from './reply.ts';
import { serverInfo } from './server-info.ts';

/** What is wrong, in words for an operator; nothing when all is well or the server does not tell (managed ones). */
export async function durabilityFaults(connection: RedisConnection<Reply>): Promise<readonly string[]> {
  const faults: string[] = [];
  const memory = await serverInfo(connection, 'memory');
  const policy = memory.get('maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    faults.push(`maxmemory-policy is ${policy}: Redis may drop accepted events; set it to noeviction`);
  }
  const persistence = await serverInfo(connection, 'persistence');
  if (persistence.get('aof_enabled') === '0') {
    faults.push('the append-only file is off: accepted events are lost with the server; set appendonly yes');
  }
  return faults;
}
