import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { QueueFailed, type QueuedStream } from '../../lib/ingest/queue-admin.ts';
import { InProcess } from './in-process.ts';
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
    const none = await admin.run(t, 'tail -n 3');
    assert.deepEqual([none.code, none.out, none.err], [1, '', 'no such events on the queue\n'], 'no stream yet');
    for (let at = 1; at <= 30; at += 1) await add(`${at * 100_000}-0`, 'shop', `order-${at}`, 'order.paid');
    const { code, out } = await admin.run(t, 'tail -n 3');
    assert.equal(code, 0);
    assert.deepEqual(cells(out), [
      ['1970-01-01T00:46:40.000Z', 'shop', 'order.paid', 'order-28', '47 B'],
      ['1970-01-01T00:48:20.000Z', 'shop', 'order.paid', 'order-29', '47 B'],
      ['1970-01-01T00:50:00.000Z', 'shop', 'order.paid', 'order-30', '47 B'],
    ]);
    assert.equal(cells((await admin.run(t, 'tail -n 100')).out).length, 30);
  });

  it('finds the last events in a dense stream', async (t) => {
    for (let at = 0; at < 700; at += 1) await add(`1000-${at}`, 'shop', `order-${at}`, 't');
    const { out } = await admin.run(t, 'tail -n 2');
    assert.deepEqual(
      cells(out).map(([, , , id]) => id),
      ['order-698', 'order-699'],
    );
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
    const { code, out, err } = await admin.run(t, 'tail -n 3 --type rare', { clock });
    assert.deepEqual([code, cells(out).map(([, , , id]) => id)], [1, ['last']]);
    assert.equal(err, 'ingest: only events since 1970-01-01T00:01:35.200Z were searched\n');
    assert.equal((await admin.run(t, 'tail -n 1 --type rare', { clock })).code, 0);
  });

  it('shows entries of other programs whose names have no date', async (t) => {
    await add('1-0', 'shop', 'a', 't');
    await add('18446744073709551615-1', 'shop', 'b', 't');
    const last = '+275760-09-13T00:00:00.000Z';
    for (const [count, ids] of [
      ['1', 'b'],
      ['2', 'ab'],
    ] as const) {
      const { code, out, failure } = await admin.run(t, `tail -n ${count} --json`);
      assert.equal(code, 0, String(failure));
      const events = out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { readonly id: string; readonly time: string });
      assert.deepEqual([events.map(({ id }) => id).join(''), events.at(-1)?.time], [ids, last]);
    }
  });

  it('follows new events by type and producer patterns, and escapes control characters', async (t) => {
    await add('*', 'shop', 'before', 'order.paid');
    const { out } = await follow(
      t,
      'tail --type order.* --producer *shop*',
      async () => {
        await add('*', 'workshop-2', 'one\n\u001b[2J', 'order.paid');
        await add('*', 'till', 'two', 'order.paid');
        await add('*', 'shop', 'three', 'orders');
        await add('*', 'shop', 'four', 'order.placed');
      },
      (text) => text.includes('four'),
    );
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
    assert.doesNotMatch((await admin.run(t, 'tail -n 1')).out + (await admin.run(t, 'tail -n 1 --json')).out, /secret/);
    assert.deepEqual(admin.audit(t), []);
    const { out, err } = await admin.run(t, 'tail -n 1 --bodies --json');
    const shown = JSON.parse(out) as Record<string, unknown>;
    assert.deepEqual([shown['id'], shown['producer'], shown['stream'], shown['bytes']], ['one', 'shop', 'ingest', 41]);
    assert.equal(shown['body'], '{"id":"one","type":"t","rest":"a secret"}');
    assert.match(err, /^audit: .* tail --bodies: 1 changed$/m);
    assert.equal((admin.audit(t)[0] as { what: string }).what, '--bodies');
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
    const uri = `dispatcher://${admin.redis.uri.replace('redis://', '')},${admin.redis.uri.replace('redis://', '')}`;
    const queue = admin.queue(t, uri);
    for (const [at, stream] of ['a', 'b', 'b', 'a', 'b'].entries())
      await admin.redis.command(
        ...['XADD', `ingest-${stream}`, `${at + 1}-0`, 'producer', 'shop', 'body', `{"id":"${at}","type":"t"}`],
      );
    const { out } = await admin.run(t, 'tail -n 4', { queue });
    assert.deepEqual(
      cells(out).map(([, , , id]) => id),
      ['1', '2', '3', '4'],
    );
  });

  it('shows the streams that answer and fails if one does not, and with --follow reports that one once', async (t) => {
    const { queue: real } = admin.session(t);
    const away = { end: () => Promise.reject(new QueueFailed('ingest-b: it is away')) } as Partial<QueuedStream>;
    const queue = { ...real, streams: [...real.streams, away as QueuedStream] };
    await add('*', 'shop', 'one', 't');
    const { failure, out, err } = await admin.run(t, 'tail -n 1', { queue });
    assert.ok(failure instanceof QueueFailed);
    assert.equal(failure.message, 'ingest-b: it is away');
    assert.deepEqual([cells(out)[0]?.[3], err], ['one', '']);
    const stop = new AbortController();
    let rounds = 0;
    const printed = (): Promise<boolean> => Promise.resolve(++rounds === 3 ? stop.abort() : undefined).then(() => true);
    const followed = await admin.run(t, 'tail -n 1 --follow', { queue, stopped: stop.signal, printed });
    assert.equal(followed.code, 0);
    assert.equal(followed.err, 'ingest-b: it is away\n');
  });
});
