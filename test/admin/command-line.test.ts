import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { UsageError } from '../../lib/admin/session.ts';

const NOW = Date.UTC(2026, 0, 31, 12);
const read = (line: string): unknown => readCommandLine(line.split(' '), NOW);
const command = (line: string): unknown => (read(line) as { command: unknown }).command;
const NONE = { reason: undefined, sinceMs: undefined };

describe("ingest-admin's command line", () => {
  it('parses each command', () => {
    assert.deepEqual(read('status --json'), { command: { kind: 'status' }, json: true, yes: false });
    const tailing = { type: undefined, producer: undefined, last: undefined, follow: true, bodies: false };
    assert.deepEqual(command('tail'), { kind: 'tail', tailing });
    assert.deepEqual(command('tail -n 20 --type order.* --producer *shop'), {
      kind: 'tail',
      tailing: { ...tailing, type: 'order.*', producer: '*shop', last: 20, follow: false },
    });
    assert.deepEqual(command('tail -n 1 --follow --bodies'), {
      kind: 'tail',
      tailing: { ...tailing, last: 1, bodies: true },
    });
    assert.deepEqual(command('event order-1'), { kind: 'event', id: 'order-1' });
    assert.deepEqual(command('event -- --odd'), { kind: 'event', id: '--odd' });
    assert.deepEqual(command('quarantine list'), { kind: 'list', filter: NONE, limit: 50 });
    assert.deepEqual(command('quarantine show q/ingest/1-1'), { kind: 'show', entry: 'q/ingest/1-1' });
    assert.deepEqual(command('quarantine replay a b a'), {
      kind: 'replay',
      selection: { kind: 'entries', entries: ['a', 'b'] },
    });
    assert.deepEqual(command('quarantine drop --all'), {
      kind: 'drop',
      selection: { kind: 'filter', filter: NONE },
    });
    assert.deepEqual(command('erase order-1 --yes'), { kind: 'erase', ids: ['order-1'] });
    assert.deepEqual(command('land-again --since 1970-01-01T00:00:05Z'), { kind: 'land-again', sinceMs: 5_000 });
    assert.deepEqual(command('prune --older-than 400d --type order.paid'), {
      kind: 'prune',
      pruning: { table: 'events', beforeMs: NOW - 400 * 86_400_000, type: 'order.paid' },
    });
    assert.deepEqual(command('prune --older-than 48h --quarantine'), {
      kind: 'prune',
      pruning: { table: 'quarantine', beforeMs: NOW - 2 * 86_400_000, type: undefined },
    });
    assert.equal(read('--help'), 'help');
    assert.equal(read('status --version'), 'version');
  });

  it('parses a time, a date, or an age', () => {
    const since = (text: string): unknown =>
      (command(`quarantine list --since ${text}`) as { filter: { sinceMs: number } }).filter.sinceMs;
    assert.equal(since('2026-01-31T10:00:00Z'), NOW - 2 * 3_600_000);
    assert.equal(since('2026-01-31T10:00:00.500+01:00'), NOW - 3 * 3_600_000 + 500);
    assert.equal(since('2026-01-31'), NOW - 12 * 3_600_000);
    assert.equal(since('90s'), NOW - 90_000);
    assert.equal(since('7d'), NOW - 7 * 86_400_000);
  });

  it('refuses ambiguous, unknown and unused arguments', () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['', /unknown command|expected a command/],
      ['stauts', /unknown command stauts/],
      ['status now', /unexpected argument now/],
      ['tail order-1', /unexpected argument order-1/],
      ['tail -n 0', /-n 0: expected a whole number from 1 to 10000/],
      ['tail --limit 3', /--limit has no meaning/],
      ['event', /expected an event id/],
      ['event a b', /expected an event id/],
      ['event a\tb', /invalid event id/],
      ['quarantine', /list, show, replay or drop/],
      ['quarantine drop', /expected names of entries, --reason R, or --all/],
      ['quarantine drop --since 1h', /expected names of entries, --reason R, or --all/],
      ['quarantine drop a --all', /either names of entries/],
      ['quarantine drop a --since 1h', /either names of entries/],
      ['quarantine list --all', /--all has no meaning/],
      ['erase a --reason x', /--reason has no meaning/],
      ['quarantine drop --all --limit 3', /--limit has no meaning/],
      ['quarantine list --limit 0', /--limit 0: expected a whole number from 1 to 10000/],
      ['quarantine list --limit 10001', /--limit 10001: expected a whole number from 1 to 10000/],
      ['quarantine list --since yesterday', /expected a time/],
      ['schema', /expected schema try/],
      ['schema try', /expected the file of a schema/],
      ['schema try /x/order.yaml', /expected the file of a schema, <type>\.json/],
      ['schema try t.json --limit 1', /--limit has no meaning/],
      ['prune', /expected --older-than T/],
      ['prune --older-than 47h', /expected at least 48h/],
      ['prune --older-than 400d --type t --quarantine', /either --type or --quarantine/],
      ['status --older-than 400d', /--older-than has no meaning/],
      ['status --watch', /watch/],
      ['erase a --scan', /scan/],
    ];
    for (const [line, message] of wrong)
      assert.throws(
        () => read(line),
        (cause: unknown) => cause instanceof UsageError && message.test(cause.message),
        line,
      );
  });
});
