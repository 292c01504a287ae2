import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Settings } from '../../lib/process/read-settings.ts';
import { PROGRAMS, type Program, type Setting } from '../../lib/process/setting-kinds.ts';
import { KEYS, SETTINGS, settingsOf } from '../../lib/process/settings.ts';
import { settingTexts } from '../../lib/process/settings-help.ts';

const PAGE = readFileSync(new URL('../../deploy/configure.md', import.meta.url), 'utf8');
const DAEMONS: readonly Program[] = ['gateway', 'consumer'];
const ENVIRONMENT_FILE = new URL('../../bin/environment-file.ts', import.meta.url).pathname;

function required(program: Program): Record<string, string> {
  return Object.fromEntries(
    settingsOf(program).flatMap(([key, setting]) =>
      'schemes' in setting && setting.required.includes(program) ? [[key, `${setting.schemes[0]}//host`]] : [],
    ),
  );
}

const factsOf = (key: string): string[] =>
  new Map(PROGRAMS.flatMap((program) => settingTexts(program).map((one) => [String(one.key), one.text])))
    .get(key)
    ?.slice(key.length + 2)
    .split(/\)\n/)[0]
    ?.split(/;\s+/) ?? [];

describe('the table of settings', () => {
  it('has every key once in deploy/configure.md, the ten that every operator needs first', () => {
    const listed = [...PAGE.matchAll(/^\* \*\*`([A-Z_]+)`\*\*/gm)].map(([, key]) => key);
    assert.deepEqual(listed, KEYS);
    assert.equal(PAGE.indexOf('### Advanced settings') > PAGE.indexOf(`\`${KEYS[9]}\`**`), true);
  });

  it('has the defaults, values and programs that deploy/configure.md lists, and every key has a meaning there', () => {
    for (const key of KEYS) {
      const setting: Setting = SETTINGS[key];
      const [initially = '', ...more] = factsOf(key);
      assert.equal(more.pop()?.replaceAll(/\s+/g, ' '), `read by ${setting.programs.join(', ')}`, key);
      if ('schemes' in setting) {
        assert.equal(initially, `required by ${setting.required.join(', ')}`, key);
        continue;
      }
      const fallback = /^default (.*)$/.exec(initially)?.[1];
      assert.deepEqual(fallback === undefined ? undefined : setting.parse(fallback), setting.default, key);
      const [, min, max] = /^(\d+) to (\d+)/.exec(more[0] ?? '') ?? [];
      if (min !== undefined) assert.equal(setting.expected, `a whole number from ${min} to ${max}`);
      else if (/^one of/.test(setting.expected)) assert.equal(setting.expected, `one of ${more[0]}`);
    }
    for (const program of PROGRAMS)
      for (const { key, text } of settingTexts(program)) assert.match(text, /\)\n +[A-Z]*[^]+\.$/i, key);
  });

  for (const program of DAEMONS) {
    it(`equals the environment file of ingest-${program}, which has every setting and its default as a comment`, () => {
      const lines = execFileSync(process.execPath, [ENVIRONMENT_FILE, program], { encoding: 'utf8' }).split('\n');
      assert.ok(lines.every((line) => line === '' || line.startsWith('#')));
      const given = lines.flatMap((line) => {
        const [, key, value] = /^#([A-Z_]+)=(.*)$/.exec(line) ?? [];
        return key === undefined ? [] : [[key, value ?? ''] as const];
      });
      assert.deepEqual(
        given.map(([key]) => key).join(),
        settingsOf(program)
          .map(([key]) => key)
          .join(),
      );
      const set = Object.fromEntries(given.filter(([, value]) => value !== ''));
      const values = new Settings({ ...set, ...required(program) }, program);
      const unset = new Settings(required(program), program);
      for (const [key] of settingsOf(program)) assert.deepEqual(values.get(key), unset.get(key), key);
    });
  }
});
