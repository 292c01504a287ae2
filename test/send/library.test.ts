// sendEvents in this process, against the fake gateway: its options, what it sends, and its journal.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
import {
  sendEvents,
  type EventInput,
  type JournalOptions,
  type SendEventsOptions,
} from '../../lib/send/send-events.ts';
import { temporaryFolder } from '../support/scope.ts';

let gateway: FakeGateway;
beforeEach(async () => {
  gateway = await startFakeGateway();
});
afterEach(() => gateway.close());

async function kinds(results: AsyncIterable<{ readonly kind: string }>): Promise<string[]> {
  const found: string[] = [];
  for await (const { kind } of results) found.push(kind);
  return found;
}

const event = (id: string): { id: string; type: string } => ({ id, type: 't' });

describe('sendEvents', () => {
  it('sends text and bytes as they are and objects as JSON', async () => {
    const padded = new Uint8Array(Buffer.from('xx{"id":"b","type":"t"} ')).subarray(2);
    const events: EventInput[] = [' {"id":"a","type":"t"}', padded, event('c')];
    assert.deepEqual(await kinds(sendEvents(events, { url: gateway.url, concurrency: 1 })), Array(3).fill('accepted'));
    assert.deepEqual(
      gateway.events.map(({ body }) => body),
      [' {"id":"a","type":"t"}', '{"id":"b","type":"t"} ', '{"id":"c","type":"t"}'],
    );
  });

  for (const [what, options, name, why] of [
    ['a URL with /events', { url: 'https://g/events' }, 'TypeError', /without \/events/],
    ['no certificate for https', { url: 'https://g' }, 'TypeError', /^cert, key: expected the PEM texts/],
    ['no key for https', { url: 'https://g', cert: 'x' }, 'TypeError', /^cert, key: expected/],
    ['a token with a line end', { token: 'a\nb' }, 'TypeError', /^token: expected visible ASCII/],
    ['an empty token', { token: '' }, 'TypeError', /^token: expected visible ASCII/],
    [
      'no concurrency',
      { concurrency: 0 },
      'RangeError',
      /^concurrency 0: expected a whole number from 1 to 2147483647$/,
    ],
    ['half a try', { tries: 1.5 }, 'RangeError', /^tries 1\.5: expected/],
    ['an endless time-out', { timeoutMs: Infinity }, 'RangeError', /^timeoutMs Infinity: expected/],
    ['a time-out beyond a timer', { timeoutMs: 2 ** 31 }, 'RangeError', /^timeoutMs 2147483648: expected/],
    ['a rate of 0', { ratePerS: 0 }, 'RangeError', /^ratePerS 0: expected more than 0$/],
    ['a rate that is no number', { ratePerS: NaN }, 'RangeError', /^ratePerS NaN: expected more than 0$/],
  ] as const)
    it(`refuses ${what} when it is called`, () => {
      const given: SendEventsOptions = { url: gateway.url, ...options };
      assert.throws(() => sendEvents([], given), { name, message: why });
    });

  it('refuses PEM texts that are none when it is called', () => {
    assert.throws(() => sendEvents([], { url: 'https://g', cert: 'x', key: 'x' }), /PEM/);
  });

  it('takes the largest numbers', () => {
    const most = 2 ** 31 - 1;
    assert.doesNotThrow(() =>
      sendEvents([], { url: gateway.url, concurrency: most, tries: most, timeoutMs: most, ratePerS: 0.1 }),
    );
  });

  it('calls onRetry, stops by its signal, and tries as often as it is told', async () => {
    gateway.next('unavailable', 'unavailable');
    assert.deepEqual(await kinds(sendEvents([event('a')], { url: gateway.url, tries: 1 })), ['refused']);
    const stop = new AbortController();
    const options = { url: gateway.url, signal: stop.signal, onRetry: () => stop.abort() };
    assert.deepEqual(await kinds(sendEvents([event('a')], options)), ['interrupted']);
    assert.equal(gateway.requests, 2);
  });
});

describe('sendEvents with a journal', () => {
  const folder = temporaryFolder();
  let journals = 0;
  let options: JournalOptions<{ id: string; type: string }>;
  const journaled: string[] = [];
  beforeEach(() => {
    journaled.length = 0;
    const journal = join(folder, String((journals += 1)));
    options = { url: gateway.url, journal, onJournaled: ({ id }) => journaled.push(id) };
  });

  it('has an event in the journal before its first try', async () => {
    gateway.next('unavailable');
    const onRetry = (): void => {
      assert.deepEqual(journaled, ['a']);
      assert.match(readFileSync(options.journal, 'utf8'), /^\{"put":1,"body":"\{\\"id\\":\\"a\\"/);
    };
    assert.deepEqual(await kinds(sendEvents([event('a')], { ...options, onRetry })), ['accepted']);
    assert.deepEqual(journaled, ['a'], 'once, however many tries it takes');
    assert.match(readFileSync(options.journal, 'utf8'), /\{"settled":1\}\n$/);
  });

  it('sends first what an earlier run left: what was interrupted, what used up its tries, what nobody read', async () => {
    const stop = new AbortController();
    gateway.next('unavailable');
    const aborted = sendEvents([event('a')], { ...options, signal: stop.signal, onRetry: () => stop.abort() });
    assert.deepEqual(await kinds(aborted), ['interrupted']);
    gateway.next('unavailable', 'unavailable');
    assert.deepEqual(await kinds(sendEvents([event('b')], { ...options, tries: 1, concurrency: 1 })), [
      'refused',
      'refused',
    ]);
    for await (const { kind } of sendEvents([event('c')], { ...options, concurrency: 1 }))
      if (kind === 'accepted') break;
    const results: (readonly [string, string])[] = [];
    for await (const result of sendEvents([event('d')], { ...options, concurrency: 1 }))
      results.push([result.kind, Buffer.isBuffer(result.event) ? result.event.toString() : result.event.id]);
    assert.deepEqual(results, [
      ['accepted', JSON.stringify(event('a'))],
      ['accepted', JSON.stringify(event('b'))],
      ['accepted', 'd'],
    ]);
    assert.deepEqual(await kinds(sendEvents([], options)), []);
    assert.deepEqual(
      gateway.events.map(({ id }) => id),
      ['a', 'b', 'd'],
    );
  });

  it('forgets what is refused for good', async () => {
    assert.deepEqual(await kinds(sendEvents([event('')], options)), ['refused']);
    assert.deepEqual(await kinds(sendEvents([], options)), []);
  });

  it('sends nothing that its journal did not take', async () => {
    const results = sendEvents([event('a')], { ...options, journal: join(folder, 'absent', 'journal') });
    await assert.rejects(kinds(results), { code: 'ENOENT' });
    const refusing = sendEvents([event('a')], {
      ...options,
      onJournaled: () => {
        throw new Error('not now');
      },
    });
    await assert.rejects(kinds(refusing), /not now/);
    assert.equal(gateway.requests, 0);
    assert.deepEqual(await kinds(sendEvents([], options)), ['accepted']);
  });
});
