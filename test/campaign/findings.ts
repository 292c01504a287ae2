// Writes down what a person needs to find the cause of a violation: ids, answers, entries in the queue, faults,
// process exits, and the logs.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Violation } from './comparison.ts';
import { idOf } from './event.ts';
import { inWords } from './ledger.ts';
import type { World } from './world.ts';

const SHOWN = 5;
const AROUND_MS = 3_000;
/** The report covers this much time after the last answer, because an event may be lost long after its 202. */
const AFTER_MS = 30_000;

export async function report(violations: readonly Violation[], world: World, under = tmpdir()): Promise<string> {
  const { ledger, history } = world;
  const parts = [`${violations.length} violations of the promise`];
  const kinds = Map.groupBy(violations, ({ what }) => what.replace(/[:(].*$/s, '').trim());
  for (const [kind, all] of kinds) parts.push(`  ${all.length} × ${kind}`);
  const entries = await entriesOf(world);
  for (const { what, number } of violations.slice(0, SHOWN)) {
    parts.push('', what);
    if (number === undefined) continue;
    const tries = ledger.triesOf(number);
    parts.push(`  id ${idOf(number).slice(0, 40)}`, ...tries.map((one) => `  ${inWords(one)}`));
    parts.push(
      `  entries in the queue: ${
        entries
          .get(idOf(number))
          ?.map(({ entry }) => entry)
          .join(', ') ?? 'none'
      }`,
    );
    const from = (tries[0]?.sentMs ?? 0) - AROUND_MS;
    parts.push('  around:', history.between(from, (tries.at(-1)?.doneMs ?? 0) + AFTER_MS));
  }
  const folder = mkdtempSync(join(under, 'ingest-campaign-'));
  for (const { name, lines } of world.services)
    writeFileSync(join(folder, `${name.replace(' ', '-')}.log`), `${lines.join('\n')}\n`);
  writeFileSync(join(folder, 'history.txt'), history.between(0, Number.POSITIVE_INFINITY));
  writeFileSync(join(folder, 'violations.json'), JSON.stringify(violations, undefined, 1));
  parts.push('', `the logs are in ${folder}`);
  return parts.join('\n');
}

/** Returns the entries by id, each with the consumer that holds it if there is one. */
async function entriesOf({ queue: { redis } }: World) {
  try {
    const pending = (await redis.command('XPENDING', 'ingest', 'warehouse', '-', '+', '100000')) as [string, string][];
    const holders = new Map(pending);
    const all = (await redis.entries()).map(({ entry, fields }) => ({
      id: (JSON.parse(fields['body'] ?? '{}') as { id?: string }).id,
      entry: holders.has(entry) ? `${entry} (pending: ${holders.get(entry)})` : entry,
    }));
    return Map.groupBy(all, ({ id }) => id);
  } catch {
    return new Map<string | undefined, { readonly entry: string }[]>(); // The queue may be unavailable.
  }
}
