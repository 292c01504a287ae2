// Copies the product with one wrong change, for tests of the campaign and of the simulation.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';

export const PRODUCT = join(import.meta.dirname, '../..');

/** Returns the folder of the copy. simulation.test.ts checks that each text occurs exactly once. */
export function brokenBuild(name: ChangeName): string {
  const [file, from, to] = CHANGES[name];
  const folder = temporaryFolder('ingest-broken-');
  for (const part of ['bin', 'lib', 'deploy', 'package.json'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PRODUCT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  writeFileSync(
    path,
    readFileSync(path, 'utf8').replace(from, () => to),
  );
  return folder;
}

/** The changes that the campaign, the simulation, or both must find, by what the build does wrong. */
export const CHANGES = {
  'acknowledges before landing': [
    'lib/consumer/consumer.ts',
    'const now = batch;',
    'const now = batch; await reader.acknowledge(now).catch(() => 0);',
  ],
  'never claims': ['lib/consumer/landing.ts', 'CLAIM_IDLE_MS = 10_000', 'CLAIM_IDLE_MS = 3_600_000'],
  'answers 202 before Redis did': [
    'lib/redis/accept/stream-queue.ts',
    'this.#pending = call;',
    "this.#pending = call; settleAll(call, 'accepted');",
  ],
  'trims what has not landed': [
    'lib/redis/stream/lua/trim-entries.lua',
    'local call, bound = redis.call, earlier(past, unlanded)',
    'local call, bound = redis.call, past',
  ],
  'accepts what the queue did not answer in time': [
    'lib/redis/accept/stream-queue.ts',
    "ms`);\n    settleAll(call, 'unavailable');",
    "ms`);\n    settleAll(call, 'accepted');",
  ],
  'takes an outage of the warehouse for a landing': [
    'lib/consumer/landing.ts',
    'if (!(cause instanceof BatchRefused)) throw cause;',
    'if (!(cause instanceof BatchRefused)) return [];',
  ],
  'reads without keeping what it holds in the group': [
    'lib/redis/read/entry-reading.ts',
    'String(max), ...block]',
    "String(max), ...block, 'NOACK']",
  ],
  'acknowledges a whole batch when a part of it has landed': [
    'lib/consumer/consumer.ts',
    'reader.acknowledge(some.done)',
    'reader.acknowledge(now)',
  ],
  'acknowledges what belongs in quarantine': [
    'lib/consumer/landing.ts',
    'await this.#quarantine(rejections);',
    'rejections;',
  ],
  'removes the row of a replayed event that was refused again': [
    'lib/consumer/landing.ts',
    'rows.filter((row) => !kept.has(row))',
    'rows',
  ],
  'prunes rows of any age': [
    'lib/admin/prune.ts',
    'Math.max(PRUNE_AGE_MS_MIN, oldest + CLOCK_MARGIN_MS)',
    'Math.min(0, PRUNE_AGE_MS_MIN, oldest + CLOCK_MARGIN_MS)',
  ],
  'drops the second event of an id that the queue has forgotten': [
    'lib/ingest/warehouse.ts',
    "? 'duplicate' : 'reused'",
    "? 'duplicate' : 'duplicate'",
  ],
  'sets a time limit for the first call alone': [
    'lib/process/time-limits.ts',
    'if (this.#limits.length > 0) this.#checkAt(this.#checkMs);',
    '',
  ],
  "calls another producer's id a duplicate": [
    'lib/redis/stream/lua/accept.lua',
    "if sub(value, 1, DIGEST) ~= sub(digests, 1, DIGEST) then refused[at] = '2'",
    "if false then refused[at] = '2'",
  ],
  'does not give back what it admitted': [
    'lib/gateway/exchange.ts',
    'if (this.admitted !== undefined) this.#context.admission.release(this.admitted);',
    '',
  ],
  'looks in the queue when the warehouse is unavailable': [
    'lib/gateway/find-event.ts',
    "return known?.kind === 'unavailable' ? UNAVAILABLE : undefined;",
    'return undefined;',
  ],
  'knows no event while the queue is unavailable': [
    'lib/gateway/find-event.ts',
    "if (queued.kind === 'unavailable') return UNAVAILABLE;",
    '',
  ],
  'gives up a queue whose name does not resolve': [
    'lib/redis/server/connection.ts',
    '(cause) => this.restart(messageOf(causeOf(cause)), false, BROKEN_INTERVAL_MS)',
    `(cause) => messageOf(causeOf(cause)).includes('EAI_AGAIN')
          ? this.close()
          : this.restart(messageOf(causeOf(cause)), false, BROKEN_INTERVAL_MS)`,
  ],
  'forgets what its journal holds': [
    'lib/send/client.ts',
    'journal?.pending() ?? []',
    '[] as { body: Buffer; number: number }[]',
  ],
  'takes files into use that are half written': [
    'lib/process/reloadable.ts',
    '(isSettled && found.digest !== digest)',
    'found.digest !== digest',
  ],
  'lands each row in a transaction of its own': [
    'lib/sqlite/database.ts',
    "open.database.exec('BEGIN IMMEDIATE');",
    'if (open.database !== undefined) return work();',
  ],
} as const satisfies Readonly<Record<string, readonly [file: string, from: string, to: string]>>;

export type ChangeName = keyof typeof CHANGES;
