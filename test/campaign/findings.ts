// Writes down what a person needs to find the cause of a violation: ids, answers, faults, process exits, and the logs.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Violation } from './comparison.ts';
import { idOf } from './event.ts';
import { inWords } from './ledger.ts';
import type { World } from './world.ts';

const SHOWN = 5;

export function report(violations: readonly Violation[], world: World, under = tmpdir()): string {
  const { ledger, history, services } = world;
  const parts = [`${violations.length} violations of the promise`];
  const kinds = Map.groupBy(violations, ({ what }) => what.replace(/[:(].*$/s, '').trim());
  for (const [kind, all] of kinds) parts.push(`  ${all.length} × ${kind}`);
  for (const { what, number } of violations.slice(0, SHOWN)) {
    parts.push('', what);
    if (number === undefined) continue;
    const tries = ledger.triesOf(number).map((one) => `  ${inWords(one)}`);
    parts.push(`  id ${idOf(number).slice(0, 40)}`, ...tries);
  }
  const folder = mkdtempSync(join(under, 'ingest-campaign-'));
  for (const { name, lines } of services)
    writeFileSync(join(folder, `${name.replace(' ', '-')}.log`), `${lines.join('\n')}\n`);
  writeFileSync(join(folder, 'history.txt'), history.text);
  writeFileSync(join(folder, 'violations.json'), JSON.stringify(violations, undefined, 1));
  return [...parts, '', `the history and the logs are in ${folder}`].join('\n');
}
