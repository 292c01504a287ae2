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

  it('knows which commands write to the queue, and so make what it lacks', () => {
    const writes = ['erase a', 'quarantine replay --all'];
    const others = ['status', 'tail', 'event a', 'quarantine list', 'quarantine show a', 'quarantine drop --all'];
    for (const line of [...writes, ...others, 'prune --older-than 48h', 'reconcile', 'reconcile --land'])
      assert.equal((read(line) as CommandLine).changesQueue, writes.includes(line), line);
  });

  it('parses a time, a date, or an age', async () => {
    for (const [text, expected] of [
      ['2026-01-31T10:00:00Z', NOW - 2 * 3_600_000],
      ['2026-01-31T10:00:00.500+01:00', NOW - 3 * 3_600_000 + 500],
      ['2026-01-31', NOW - 12 * 3_600_000],
      ['90s', NOW - 90_000],
      ['30m', NOW - 1_800_000],
      ['12h', NOW - 43_200_000],
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

  for (const line of [
    ...['', 'stauts', 'constructor', 'status now', 'status --older-than 400d', 'status --watch', 'status --land'],
    ...['tail order-1', 'tail -n 0', 'tail -n x', 'tail -n 10001', 'tail --limit 3'],
    ...['event', 'event a b', 'event a\tb', 'erase', 'erase a --file f', 'erase a --reason x', 'erase a --scan'],
    ...['quarantine', 'quarantine show', 'quarantine list --all', 'quarantine list --limit 0'],
    ...['quarantine list --limit 10001', 'quarantine list --since yesterday', 'quarantine list --since 2026-02-30'],
    ...['quarantine drop', 'quarantine drop --since 1h', 'quarantine drop a --all', 'quarantine drop a --since 1h'],
    ...['quarantine drop --all --limit 3', 'quarantine replay', 'reconcile --rate 0', 'reconcile --since 1h'],
    ...['schema', 'schema try', 'schema try /x/order.yaml', 'schema try t.json --limit 1'],
    ...['prune', 'prune --older-than 47h', 'prune --older-than 400d --type t --quarantine'],
  ])
    it(`refuses ambiguous, unknown, unused and missing arguments: ${JSON.stringify(line)}`, () =>
      assert.throws(() => read(line), UsageError));
});
