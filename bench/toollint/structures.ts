// The two structures of lib/toollint/document that a simpler one could replace, each against that one: the table of
// fingerprints against a Map, and the reader that checks what JSON.parse hides against running it on every value.
//
//   bin/node bench/toollint/structures.ts
//
// Each subject runs in a process of its own, since peak memory is one figure for a process. Printed is what it costs
// above making its input.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { FingerprintTable } from '../../lib/toollint/document/fingerprint-table.ts';
import { countNames } from '../../lib/toollint/document/name-count.ts';
import { jsonProblems } from '../../lib/toollint/document/strict-json.ts';

const ENTRIES = 1_000_000;

const fingerprint = (index: number) => createHash('sha256').update(String(index)).digest('hex');
const ruleOf = (index: number) => `rule${index % 50}`;
const pathOf = (index: number) => `src/${index % 3000}.js`;
const line = (index: number) =>
  JSON.stringify({
    ruleId: ruleOf(index),
    severity: 'warning',
    message: 'Unexpected console statement.',
    fingerprint: 'c'.repeat(64),
    fingerprintVersion: 'toolLint/v1',
    occurrence: 1,
    location: { scope: 'file', path: pathOf(index), line: (index & 255) + 1, column: 5 },
    standardIds: [],
    docsUrl: 'https://example.org/no-console',
    codeSnippet: 'console.log(x);',
  });

/** Fills or reads; what it returns is kept until the peak has been read. */
const SUBJECTS: Record<string, () => unknown> = {
  'no table': () => each((index) => fingerprint(index)),
  Map: () => {
    const counts = new Map<string, { count: number; owner: string }>();
    const owners = new Map<string, string>();
    each((index) => {
      const text = `${ruleOf(index)}\n${pathOf(index)}`;
      const owner = owners.get(text) ?? text;
      owners.set(owner, owner);
      const key = fingerprint(index);
      const known = counts.get(key);
      if (known === undefined) counts.set(key, { count: 1, owner });
      else known.count += 1;
    });
    return counts;
  },
  FingerprintTable: () => {
    const table = new FingerprintTable();
    each((index) => table.add(fingerprint(index), ruleOf(index), 'file', pathOf(index)));
    return table;
  },
  'no reader': () => each((index) => line(index)),
  'JSON.parse and the count of names': () => each((index) => countNames(JSON.parse(line(index)))),
  'JSON.parse and the exact reader': () =>
    each((index) => {
      const text = line(index);
      JSON.parse(text);
      return jsonProblems(text, '');
    }),
};

function each(work: (index: number) => unknown): void {
  for (let index = 0; index < ENTRIES; index += 1) work(index);
}

function measured(name: string): { seconds: number; megabytes: number } {
  const { stdout } = spawnSync(process.execPath, [...process.execArgv, import.meta.filename, name], {
    encoding: 'utf8',
  });
  return JSON.parse(stdout) as { seconds: number; megabytes: number };
}

const [subject] = process.argv.slice(2);
if (subject === undefined) {
  let none = { seconds: 0, megabytes: 0 };
  for (const name of Object.keys(SUBJECTS)) {
    const cost = measured(name);
    if (name.startsWith('no ')) none = cost;
    else {
      const [seconds, megabytes] = [cost.seconds - none.seconds, cost.megabytes - none.megabytes];
      process.stdout.write(
        `${name}: ${seconds.toFixed(1)} s of CPU, ${megabytes.toFixed(0)} MB for ${ENTRIES} entries\n`,
      );
    }
  }
} else {
  const before = process.cpuUsage();
  const kept = SUBJECTS[subject]?.();
  const { user, system } = process.cpuUsage(before);
  const megabytes = process.resourceUsage().maxRSS / 1024;
  process.stdout.write(JSON.stringify({ seconds: (user + system) / 1e6, megabytes, kept: typeof kept }));
}
