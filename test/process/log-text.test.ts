// A line of the log as people read it.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { textLine } from '../../lib/process/log.ts';

const line = (fields: Readonly<Record<string, unknown>>, colors = false): string =>
  textLine(JSON.stringify(fields), colors);

describe('a line of the log for people', () => {
  it('has time, level, name, message, and then the other fields, without the process', () => {
    const fields = {
      level: 'warn',
      time: '2026-01-31T12:00:00.000Z',
      pid: 7,
      name: 'ingest-gateway',
      port: 1,
      msg: 'no',
    };
    assert.equal(line(fields), '2026-01-31T12:00:00.000Z WARN  ingest-gateway no port=1\n');
    assert.equal(line({ level: 'error', msg: 'no' }), 'ERROR no\n');
    assert.equal(line({ msg: 'no level' }), 'INFO  no level\n');
  });

  it('has fields bare where they cannot be misread, and as JSON elsewhere', () => {
    const fields = {
      a: 'bare:1',
      b: 'two words',
      c: 'x=y',
      d: 'a"b',
      e: '',
      f: null,
      g: [1],
      h: ' a',
      i: 'a ',
      j: true,
    };
    assert.equal(
      line({ level: 'info', ...fields }),
      'INFO  a=bare:1 b="two words" c="x=y" d="a\\"b" e="" f=null g=[1] h=" a" i="a " j=true\n',
    );
  });

  it('has the stack of an error below it, or its message where it has none', () => {
    assert.equal(line({ msg: 'no', err: { message: 'why', stack: 'why\n  at x' } }), 'INFO  no\n    why\n      at x\n');
    assert.equal(line({ msg: 'no', err: { message: 'why' } }), 'INFO  no\n    why\n');
    assert.equal(line({ msg: 'no', err: {} }), 'INFO  no\n');
  });

  it('has a level in the colour of its severity where the terminal has colours', () => {
    for (const [level, code] of [
      ['debug', '90'],
      ['warn', '33'],
      ['error', '31'],
      ['fatal', '31'],
    ] as const)
      assert.equal(line({ level, msg: 'm' }, true), `\u001b[${code}m${level.toUpperCase().padEnd(5)}\u001b[39m m\n`);
    assert.equal(line({ level: 'info', msg: 'm' }, true), 'INFO  m\n');
  });
});
