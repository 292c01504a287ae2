import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readCommandLine, type CommandLine } from '../../lib/admin/command-line.ts';
import { UsageError, type Session } from '../../lib/admin/session.ts';

const NOW = Date.UTC(2026, 0, 31, 12);
const read = (line: string): unknown => readCommandLine(line.split(' '), NOW);

describe("ingest-admin's command line", () => {
  it('has help, a version, and flags that every command accepts', () => {
    assert.equal(read('--help'), 'help');
    assert.equal(read('status --version'), 'version');
    const { json, yes } = read('event --json --yes -- --odd') as CommandLine;
    assert.deepEqual([json, yes], [true, true]);
  });

  it('parses a time, a date, or an age', async () => {
    for (const [text, expected] of [
      ['2026-01-31T10:00:00Z', NOW - 2 * 3_600_000],
      ['2026-01-31T10:00:00.500+01:00', NOW - 3 * 3_600_000 + 500],
      ['2026-01-31', NOW - 12 * 3_600_000],
      ['90s', NOW - 90_000],
      ['7d', NOW - 7 * 86_400_000],
    ] as const) {
      const seen: unknown[] = [];
      const quarantineCount = ({ sinceMs }: { sinceMs: number }): Promise<number> => {
        seen.push(sinceMs);
        return Promise.resolve(0);
      };
      const session = { warehouse: { quarantineCount }, tell: () => undefined, print: () => undefined };
      await (read(`quarantine drop --all --since ${text}`) as CommandLine).run(session as unknown as Session);
      assert.deepEqual(seen, [expected]);
    }
  });

  it('refuses ambiguous, unknown and unused arguments', () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['', /unknown command|expected a command/],
      ['stauts', /unknown command stauts/],
      ['constructor', /unknown command constructor/],
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
      ['reconcile --rate 0', /--rate 0: expected a whole number/],
      ['reconcile --since 1h', /--since has no meaning/],
      ['status --land', /--land has no meaning/],
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
