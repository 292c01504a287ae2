import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Settings } from '../../lib/process/env.ts';
import type { Program, Setting } from '../../lib/process/setting.ts';
import { FIRST_KEYS, KEYS, SETTINGS, settingsOf } from '../../lib/process/settings.ts';
import { daemonHelp, environmentFile, MEANINGS, settingsLists } from '../../lib/process/settings-text.ts';

const PAGE = readFileSync(new URL('../../deploy/configure.md', import.meta.url), 'utf8');
const DAEMONS: readonly Program[] = ['gateway', 'consumer'];

function required(program: Program): Record<string, string> {
  return Object.fromEntries(
    settingsOf(program).flatMap(([key, setting]) =>
      'schemes' in setting && setting.required.includes(program) ? [[key, `${setting.schemes[0]}//host`]] : [],
    ),
  );
}

describe('the table of settings', () => {
  it('equals the lists in deploy/configure.md, which `make settings` writes', () => {
    assert.equal(/<!-- settings -->\n([^]*?)\n<!-- \/settings -->/.exec(PAGE)?.[1], settingsLists());
  });

  it('has every key once in deploy/configure.md, with the ten that every operator needs first', () => {
    const listed = [...PAGE.matchAll(/^\* \*\*`([A-Z_]+)`\*\*/gm)].map(([, key]) => key);
    assert.deepEqual(listed.slice(0, 10), FIRST_KEYS);
    assert.deepEqual(listed.toSorted(), [...KEYS].sort());
  });

  it('has a meaning, a program and a permitted default in every row', () => {
    for (const key of KEYS) {
      const setting: Setting = SETTINGS[key];
      assert.ok(setting.programs.length > 0 && MEANINGS[key] !== '', key);
      assert.doesNotMatch(MEANINGS[key], /\.$|\|/, key);
      if ('parse' in setting && setting.default !== undefined)
        assert.deepEqual(setting.parse(setting.initially), setting.default, key);
    }
  });

  for (const program of DAEMONS) {
    it(`equals the environment file of ingest-${program}, which has every setting and its default as a comment`, () => {
      const lines = environmentFile(program).split('\n');
      assert.deepEqual(
        lines.filter((line) => line !== '' && !line.startsWith('#')),
        [],
      );
      const given = lines.flatMap((line) => {
        const [, key, value] = /^#([A-Z_]+)=(.*)$/.exec(line) ?? [];
        return key === undefined ? [] : [[key, value ?? ''] as const];
      });
      assert.deepEqual(
        given.map(([key]) => key),
        settingsOf(program).map(([key]) => key),
      );
      const values = new Settings(
        { ...Object.fromEntries(given.filter(([, value]) => value !== '')), ...required(program) },
        program,
      );
      const unset = new Settings(required(program), program);
      for (const [key] of settingsOf(program)) assert.deepEqual(values.get(key), unset.get(key), key);
    });

    it(`has the bounds that ingest-${program} checks: a value outside is a problem that names key and bounds`, () => {
      for (const [key, setting] of settingsOf(program)) {
        const [, min, max] = /^(\d+) to (\d+)$/.exec('values' in setting ? setting.values : '') ?? [];
        if (min === undefined) continue;
        const problems = (value: number): readonly string[] =>
          new Settings({ ...required(program), [key]: String(value) }, program).report().problems;
        assert.deepEqual([...problems(Number(min)), ...problems(Number(max))], [], key);
        for (const outside of [Number(min) - 1, Number(max) + 1])
          assert.deepEqual(problems(outside), [`${key}="${outside}": expected a whole number from ${min} to ${max}`]);
      }
    });
  }

  it('is in --help, with default, values and meaning of each key, in lines of at most 110 characters', () => {
    const help = daemonHelp('gateway', { summary: 'accepts events', connected: 'both', exits: '4 no queue' });
    assert.ok(help.startsWith('ingest-gateway: accepts events\n'));
    for (const row of [
      '  INGEST_WAREHOUSE_URI (default: none)\n      the warehouse: sqlite:<path>, percent-encoded, or postgres://',
      '  INGEST_QUEUE_URI (required)\n      the queue: redis://[user:password@]host:port[/db],',
      '  INGEST_GATEWAY_ADDR (default: 127.0.0.1:8443; host:port or [v6]:port, port 0 for any free one)\n      ',
      '  INGEST_TOKEN_REQUIRED (default: 0; 0 or 1)\n      ',
      '  INGEST_ENQUEUE_TIMEOUT_MS (default: 150; 1 to 3600000 ms)\n      ',
      '  INGEST_LOG_LEVEL (default: info; debug, info, warn, error)\n      the least severe level that is logged,',
    ])
      assert.ok(help.includes(row), row);
    for (const line of help.split('\n')) assert.ok(line.length <= 110 && line === line.trimEnd(), line);
  });

  it('is an environment file with each meaning before its setting', () => {
    assert.match(environmentFile('gateway'), /^# partitions of a queue .*\n# .*\n#INGEST_QUEUE_PARTITIONS=8\n\n/m);
  });
});
