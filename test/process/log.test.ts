import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { textLine, throttled } from '../../lib/process/log.ts';
import { anyCharacter } from '../support/any-character.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const HOSTILE = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/u;
const anyText = fc.string({ unit: anyCharacter, maxLength: 40 });

const line = (fields: Readonly<Record<string, unknown>>): string => textLine(JSON.stringify(fields));

describe('a line of the text log', () => {
  it('has time, level, name and message before the other fields, and no process id', () => {
    const from = { time: '2026-01-31T12:00:00.000Z', pid: 7, name: 'ingest-gateway' };
    assert.equal(
      line({ level: 'warn', ...from, port: 1, msg: 'no' }),
      '2026-01-31T12:00:00.000Z WARN  ingest-gateway no port=1\n',
    );
    assert.equal(line({ level: 'error', msg: 'no' }), 'ERROR no\n');
    assert.equal(line({ msg: 'no level' }), 'INFO  no level\n');
  });

  it('has fields as JSON unless their plain text is unambiguous', () => {
    const fields = { a: 'bare:1', b: 'two words', c: 'x=y', d: 'a"b', e: '', f: null, g: [1], h: ' a', j: true };
    const text = 'a=bare:1 b="two words" c="x=y" d="a\\"b" e="" f=null g=[1] h=" a" j=true';
    assert.equal(line({ level: 'info', ...fields }), `INFO  ${text}\n`);
  });

  it('is followed by the stack of an error, or by its message', () => {
    assert.equal(line({ msg: 'no', err: { message: 'why', stack: 'why\n  at x' } }), 'INFO  no\n    why\n      at x\n');
    assert.equal(line({ msg: 'no', err: { message: 'why' } }), 'INFO  no\n    why\n');
    assert.equal(line({ msg: 'no', err: {} }), 'INFO  no\n');
  });

  it('is one line without control characters for any message and field', () =>
    fc.assert(
      fc.property(anyText, anyText, anyText, (msg, key, value) => {
        const json = JSON.stringify({ level: 'info', time: 't', name: 'n', msg, [`k${key}`]: value, list: [value] });
        const line = textLine(json);
        assert.ok(line.endsWith('\n') && !HOSTILE.test(line.slice(0, -1)), JSON.stringify(line));
      }),
    ));

  it('that is not JSON has no control characters either', () =>
    assert.equal(textLine('no JSON \u009b31m\n'), 'no JSON \\u009b31m\n'));
});

it('a logged error about a malformed URL shows no part of the URL', () => {
  const module = new URL('../../lib/process/log.ts', import.meta.url).href;
  const script = `import { createLog } from '${module}';
    try { new URL('//[', 'redis://u:secret@host'); } catch (err) { createLog('test', 'info').error({ err }, 'no'); }`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  assert.match(stdout, /"code":"ERR_INVALID_URL"/);
  assert.doesNotMatch(stdout, /secret|\/\/\[/);
});

it('a throttled line is written once in an interval, with the number of suppressed ones', async () => {
  const clock = new VirtualClock();
  const writes = throttled(clock, 1_000);
  const written: number[] = [];
  const line = (): void => writes((heldBack) => written.push(heldBack));
  for (let times = 0; times < 3; times += 1) line();
  await clock.advance(999);
  line();
  assert.deepEqual(written, [0]);
  await clock.advance(1);
  line();
  assert.deepEqual(written, [0, 3]);
  await clock.advance(5_000);
  line();
  assert.deepEqual(written, [0, 3, 0]);
});
