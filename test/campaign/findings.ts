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
  for (const [what, count] of countsOf(violations)) parts.push(`  ${count} × ${what}`);
  const entries = await entriesOf(world, new Set(violations.map(({ number }) => number)));
  for (const { what, number } of violations.slice(0, SHOWN)) {
    parts.push('', what);
    if (number === undefined) continue;
    const tries = ledger.triesOf(number);
    parts.push(`  id ${idOf(number).slice(0, 40)}`, ...tries.map((one) => `  ${inWords(one)}`));
    parts.push(`  entries in the queue: ${entries.get(idOf(number))?.join(', ') ?? 'none'}`);
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

function countsOf(violations: readonly Violation[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { what } of violations) {
    const kind = what.replace(/[:(].*$/s, '').trim();
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

async function entriesOf(
  world: World,
  numbers: ReadonlySet<number | undefined>,
): Promise<ReadonlyMap<string, string[]>> {
  const found = new Map<string, string[]>();
  try {
    const wanted = new Set([...numbers].flatMap((number) => (number === undefined ? [] : [idOf(number)])));
    const { redis } = world.queue;
    const pending = (await redis.command('XPENDING', 'ingest', 'warehouse', '-', '+', '100000')) as [string, string][];
    const holders = new Map(pending.map(([entry, consumer]) => [entry, consumer]));
    for (const { entry, fields } of await redis.entries()) {
      const id = (JSON.parse(fields['body'] ?? '{}') as { id?: string }).id ?? '';
      if (!wanted.has(id)) continue;
      const holder = holders.get(entry);
      found.set(id, [...(found.get(id) ?? []), `${entry}${holder === undefined ? '' : ` (pending: ${holder})`}`]);
    }
  } catch (cause) {
    found.set('', [String(cause)]);
  }
  return found;
}
