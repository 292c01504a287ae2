import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { QueueFailed, type QueuedStream } from '../../lib/ingest/queue-admin.ts';
import { InProcess } from './in-process.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const CELLS = /^(\d{4}-\d\d-\d\dT[\d:.]+Z) {2}(\S+) {2}(\S+) {2}(.*?) {2}(\S+ K?i?B)$/;

describe('tail', () => {
  const admin = new InProcess();
  const add = (entry: string, producer: string, id: string, type: string, rest = ''): Promise<unknown> =>
    admin.redis.command('XADD', 'ingest', entry, 'producer', producer, 'body', JSON.stringify({ id, type, rest }));
  const cells = (text: string): (string | undefined)[][] =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => CELLS.exec(line)?.slice(1) ?? [line]);
  const ids = ({ out }: { readonly out: string }): string =>
    cells(out)
      .map(([, , , id]) => id)
      .join();

  async function follow(
    t: TestContext,
    line: string,
    during: () => Promise<unknown>,
    enough: (out: string) => boolean,
  ) {
    const stop = new AbortController();
    const shown = { out: '', err: '' };
    const begun = Promise.withResolvers<void>();
    const running = admin.run(t, line, {
      stopped: stop.signal,
      print: (text) => void (shown.out += text),
      tell: (text) => void (shown.err += `${text}\n`),
      printed: () => Promise.resolve(begun.resolve()).then(() => true),
    });
    await begun.promise;
    await during();
    await eventually('it has shown enough', () => enough(shown.out + shown.err));
    stop.abort();
    assert.equal((await running).code, 0);
    return shown;
  }

  it('shows the last events, the newest last, and exits', async (t) => {
    await admin.assertShows(t, 'tail -n 3', 1, '', 'no such events on the queue\n');
    for (let at = 1; at <= 30; at += 1) await add(`${at * 100_000}-0`, 'shop', `order-${at}`, 'order.paid');
    const { out } = await admin.assertShows(t, 'tail -n 3', 0);
    assert.deepEqual(cells(out), [
      ['1970-01-01T00:46:40.000Z', 'shop', 'order.paid', 'order-28', '47 B'],
      ['1970-01-01T00:48:20.000Z', 'shop', 'order.paid', 'order-29', '47 B'],
      ['1970-01-01T00:50:00.000Z', 'shop', 'order.paid', 'order-30', '47 B'],
    ]);
    assert.equal(cells((await admin.run(t, 'tail -n 100')).out).length, 30);
    const stop = new AbortController();
    const printed = () => Promise.resolve(true).finally(() => stop.abort());
    await admin.assertShows(t, 'tail -n 3', 1, undefined, 'interrupted\n', { stopped: stop.signal, printed });
  });

  it('finds the last events in a dense stream', async (t) => {
    for (let at = 0; at < 700; at += 1) await add(`1000-${at}`, 'shop', `order-${at}`, 't');
    assert.equal(ids(await admin.run(t, 'tail -n 2')), 'order-698,order-699');
  });

  it('shows the last of a few rare events, although it stops searching long before the first event', async (t) => {
    const many = (ms: number, count: number): Promise<unknown>[] =>
      Array.from({ length: count }, (_, at) => add(`${ms}-${at}`, 'shop', `order-${at}`, 't'));
    await Promise.all([
      add('1-1', 'shop', 'first', 'rare'),
      ...many(2, 12_000),
      add('300000-0', 'shop', 'last', 'rare'),
    ]);
    const clock = { ...SYSTEM.clock, sleep: () => Promise.resolve() };
    const told = 'ingest: only events since <time> were searched\n';
    assert.equal(ids(await admin.assertShows(t, 'tail -n 3 --type rare', 1, undefined, told, { clock })), 'last');
    await admin.assertShows(t, 'tail -n 1 --type rare', 0, undefined, '', { clock });
  });

  it('shows entries of other programs whose names have no date', async (t) => {
    await add('1-0', 'shop', 'a', 't');
    await add('18446744073709551615-1', 'shop', 'b', 't');
    await admin.assertShows(t, 'tail -n 1 --json', 0, /^\{"time":"\+275760-09-13T00:00:00.000Z",.*"id":"b".*\n$/);
    await admin.assertShows(t, 'tail -n 2 --json', 0, /^.*"id":"a".*\n.*"id":"b".*\n$/);
  });

  it('follows new events by type and producer patterns, and escapes control characters', async (t) => {
    await add('*', 'shop', 'before', 'order.paid');
    const more = async (): Promise<void> => {
      await add('*', 'workshop-2', 'one\n\u001b[2J', 'order.paid');
      await add('*', 'till', 'two', 'order.paid');
      await add('*', 'shop', 'three', 'orders');
      await add('*', 'shop', 'four', 'order.placed');
    };
    const line = 'tail --type order.* --producer *shop*';
    const { out } = await follow(t, line, more, (text) => text.includes('four'));
    assert.deepEqual(
      cells(out).map(([, producer, type, id]) => [producer, type, id]),
      [
        ['workshop-2', 'order.paid', 'one\\u000a\\u001b[2J'],
        ['shop', 'order.placed', 'four'],
      ],
    );
  });

  it('shows bodies only with --bodies, and records that', async (t) => {
    await add('1-1', 'shop', 'one', 't', 'a secret');
    for (const line of ['tail -n 1', 'tail -n 1 --json']) await admin.assertShows(t, line, 0, /^(?!.*secret)/);
    assert.deepEqual(admin.audit(), []);
    const entry = { time: '<time>', stream: 'ingest', entry: '1-1', producer: 'shop', type: 't', id: 'one', bytes: 41 };
    const shown = { ...entry, body: '{"id":"one","type":"t","rest":"a secret"}' };
    const line = 'tail -n 1 --bodies --type t* --json';
    await admin.assertShows(t, line, 0, shown, /^audit: .* tail --bodies --type t\*: 1 changed$/m);
    assert.deepEqual(admin.audit(), [['tail', '--bodies --type t*', 1]]);
  });

  it('skips to the end of a stream that grows too fast, and prints the number of skipped events', async (t) => {
    const many = async (): Promise<void> => {
      for (let at = 0; at < 6_000; at += 1) void add('*', 'shop', `order-${at}`, 't');
      await add('*', 'shop', 'last', 't');
    };
    const { err, out } = await follow(t, 'tail', many, (text) => /skipped/.test(text));
    const skipped = Number(/ingest: skipped ([\d,]+) events/.exec(err)?.[1]?.replaceAll(',', ''));
    assert.ok(skipped > 0 && skipped + cells(out).length <= 6_001, `${skipped} of 6001, ${cells(out).length} shown`);
  });

  it('merges the streams of several partitions by time', async (t) => {
    const server = admin.redis.uri.replace('redis://', '');
    const queue = admin.queue(t, `dispatcher://${server},${server}`);
    for (const [at, stream] of ['a', 'b', 'b', 'a', 'b'].entries())
      await admin.redis.command(
        ...['XADD', `ingest-${stream}`, `${at + 1}-0`, 'producer', 'shop', 'body', `{"id":"${at}","type":"t"}`],
      );
    assert.equal(ids(await admin.run(t, 'tail -n 4', { queue })), '1,2,3,4');
  });

  it('shows the streams that answer and fails if one does not, and with --follow reports each outage once', async (t) => {
    const { queue: real } = admin.session(t);
    // Each call gets the next answer: two outages, and between them eight full reads, never five in a row.
    const answers = 'away away away away end full full full full some full full full full away away'.split(' ');
    const answer = () => {
      const [kind] = answers.splice(0, 1);
      if (kind === 'away') return Promise.reject(new QueueFailed('ingest-b: it is away'));
      return Promise.resolve({ entry: '0-0', added: 0, length: 0, entries: [], full: kind === 'full' });
    };
    const away = { name: 'ingest-b', end: answer, after: answer } as Partial<QueuedStream>;
    const queue = { ...real, streams: [...real.streams, away as QueuedStream] };
    await add('*', 'shop', 'one', 't');
    assert.equal(
      ids(await admin.assertShows(t, 'tail -n 1', QueueFailed, undefined, 'ingest-b: it is away', { queue })),
      'one',
    );
    const stop = new AbortController();
    const printed = (): Promise<boolean> => {
      if (answers.length === 0) stop.abort();
      return Promise.resolve(true);
    };
    const change = { queue, stopped: stop.signal, printed, clock: { ...SYSTEM.clock, sleep: () => Promise.resolve() } };
    const told = 'ingest-b: it is away\n';
    await admin.assertShows(t, 'tail -n 1 --follow', 0, undefined, told + told, change);
    // It ends when its output has no reader any more.
    let reads = 0;
    const left = { printed: () => Promise.resolve((reads += 1) < 3), clock: change.clock };
    const end = AbortSignal.timeout(GENEROUS_MS);
    await admin.assertShows(t, 'tail -n 1 --follow', 0, undefined, '', { ...left, stopped: end });
    assert.equal(reads, 3);
  });
});
