// Queues with entries of any age.
import { before } from 'node:test';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import type { TestRedis } from '../support/redis.ts';

const HOUR_MS = 3_600_000;
export const GROUP = 'warehouse';

export let pki: Pki;
export let producer: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('one');
});

/** Appends `count` entries of this age, by their names, and gives the names. */
export async function append(redis: TestRedis, ageHours: number, count: number, bodyBytes = 0): Promise<string[]> {
  const ms = Math.round(Date.now() - ageHours * HOUR_MS);
  const script = `local names = {}
    for n = 1, ARGV[2] do
      local body = '{"id":"' .. ARGV[1] .. '-' .. n .. '","type":"a","pad":"' .. string.rep('x', ARGV[3]) .. '"}'
      names[n] = redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'producer', 'p', 'body', body)
    end
    return names`;
  const args = [String(ms), String(count), String(bodyBytes)];
  return (await redis.command('EVAL', script, '1', 'ingest', ...args)) as string[];
}

/**
 * Delivers everything that is unread to a member of the group, which is made where it is missing, and acknowledges it.
 */
export async function land(redis: TestRedis, { acknowledge = true } = {}): Promise<void> {
  await redis.command('XGROUP', 'CREATE', 'ingest', GROUP, '0', 'MKSTREAM').catch(() => undefined);
  const script = `local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'hand', 'COUNT', 1000000, 'STREAMS', KEYS[1], '>')
    if ARGV[2] == 'no' or not read then return end
    for _, entry in ipairs(read[1][2]) do redis.call('XACK', KEYS[1], ARGV[1], entry[1]) end`;
  await redis.command('EVAL', script, '1', 'ingest', GROUP, acknowledge ? 'yes' : 'no');
}

export const names = async (redis: TestRedis): Promise<string[]> => (await redis.entries()).map(({ entry }) => entry);
