// One table of settings, told in four places: the parser, each program's --help, the list of known keys and deploy/README.md.
// None may know a key, a default or a bound that another does not.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Settings } from '../../lib/process/env.ts';
import type { Program, Setting } from '../../lib/process/setting.ts';
import { KEYS, KNOWN_KEYS, SETTINGS, settingsOf } from '../../lib/process/settings.ts';
import { environmentFile, settingsHelp, settingsTable } from '../../lib/process/settings-text.ts';
import { Program as TestProgram, type ProgramName } from '../support/program.ts';

const README = readFileSync(new URL('../../deploy/README.md', import.meta.url), 'utf8');
const BINARIES: readonly (readonly [Program, ProgramName])[] = [
  ['gateway', 'ingest-gateway'],
  ['consumer', 'ingest-consumer'],
  ['dispatcher', 'ingest-dispatcher'],
];

/** What a program cannot start without, so that its report is about the one value that a test sets. */
function required(program: Program): Record<string, string> {
  return Object.fromEntries(
    settingsOf(program).flatMap(([key, setting]) =>
      setting.kind === 'uri' && setting.required.includes(program) ? [[key, `${setting.schemes[0]}//host`]] : [],
    ),
  );
}

describe('the table of settings', () => {
  it('stands in deploy/README.md as `make settings` writes it', () => {
    assert.equal(/<!-- settings -->\n([^]*?)\n<!-- \/settings -->/.exec(README)?.[1], settingsTable());
  });

  it('is all that deploy/README.md knows of keys', () => {
    const keys = [...README.matchAll(/\bINGEST_[A-Z0-9_]*[A-Z0-9]\b/g)];
    assert.ok(keys.length > KEYS.length, `${keys.length} keys`);
    for (const [named] of keys)
      assert.ok(
        [...KNOWN_KEYS, 'INGEST_SHED'].includes(named),
        `${named} stands in deploy/README.md and not in the table`,
      );
  });

  it('has a meaning, a program and a default within its bounds in every row', () => {
    for (const key of KEYS) {
      const setting: Setting = SETTINGS[key];
      assert.ok(setting.programs.length > 0 && setting.meaning !== '', key);
      assert.doesNotMatch(setting.meaning, /\.$|\|/, key);
      if (setting.kind === 'integer' && setting.default !== undefined)
        assert.ok(setting.min <= setting.default && setting.default <= setting.max, key);
      if (setting.kind === 'choice') assert.ok(setting.choices.includes(setting.default), key);
    }
  });

  for (const [program, name] of BINARIES) {
    it(`is the environment file of ${name}: every setting as a comment that says what the program does without it`, () => {
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

    it(`is what ${name} --help prints: its own rows, whole, and no key of another program`, async () => {
      const help = new TestProgram(name, { args: ['--help'], env: {} });
      assert.equal(await help.ended, 0);
      assert.ok(help.output.includes(settingsHelp(program).trimEnd()), help.output);
      const named = new Set([...help.output.matchAll(/^ {2}([A-Z_]+) \(/gm)].map(([, key]) => key));
      assert.deepEqual(
        [...named],
        settingsOf(program).map(([key]) => key),
      );
    });

    it(`is what ${name} parses: bounds hold at their ends, and one past them is a problem that names key and bounds`, () => {
      for (const [key, setting] of settingsOf(program)) {
        if (setting.kind !== 'integer') continue;
        const problems = (value: number): readonly string[] =>
          new Settings({ ...required(program), [key]: String(value) }, program).report().problems;
        assert.deepEqual([...problems(setting.min), ...problems(setting.max)], [], key);
        for (const outside of [setting.min - 1, setting.max + 1])
          assert.deepEqual(problems(outside), [
            `${key}="${outside}": expected a whole number from ${setting.min} to ${setting.max}`,
          ]);
      }
    });
  }
});
