// The sender as a library, imported by the package's own name, against the real gateway.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { sendEvents, SendingStopped, type EventInput, type SendEventsOptions, type SendResult } from 'ingest-gateway';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';

let redis: TestRedis;
let gateway: TestGateway;
let options: SendEventsOptions;

before(async () => {
  const pki = await Pki.create();
  redis = await TestRedis.start();
  gateway = await TestGateway.start(redis, pki, PATIENT);
  const { cert, key } = await pki.producer('library');
  options = { url: `https://127.0.0.1:${gateway.port}`, cert, key, ca: pki.authority.certificate };
});

async function all<T extends EventInput>(results: AsyncIterable<SendResult<T>>): Promise<SendResult<T>[]> {
  const list: SendResult<T>[] = [];
  for await (const result of results) list.push(result);
  return list;
}

describe('sendEvents', () => {
  it('takes text, bytes and objects, and gives one result for each event with the event in it', async () => {
    const events = [event('text'), Buffer.from(event('bytes')), { id: 'object', type: 'test.event', at: 1 }];
    const results = await all(sendEvents(events, options));
    assert.deepEqual(new Set(results.map((result) => result.event)), new Set(events));
    for (const result of results) assert.ok(result.kind === 'accepted' && !result.duplicate && result.tries === 1);
    const bodies = (await redis.entries()).map(({ fields }) => fields['body']);
    assert.deepEqual(bodies.sort(), [event('text'), event('bytes'), JSON.stringify(events[2])].sort());
  });

  it('gives what was refused with its code and answer, and goes on', async () => {
    const results = await all(sendEvents([event('fine'), '{"id":"no-type"}', event('fine-too')], options));
    const refused = results.find((result) => result.kind === 'refused');
    assert.equal(refused?.code, 'INVALID_EVENT');
    assert.equal(refused.status, 400);
    assert.equal((refused.answer as { retryable?: unknown }).retryable, false);
    assert.equal(results.filter(({ kind }) => kind === 'accepted').length, 2);
  });

  it('reads no further ahead than its concurrency, and ends its source when the reader stops', async () => {
    let read = 0;
    let ended = false;
    async function* source(): AsyncGenerator<string> {
      try {
        for (;;) {
          read += 1;
          yield event(`endless-${read}`);
        }
      } finally {
        ended = true;
      }
    }
    let seen = 0;
    for await (const result of sendEvents(source(), { ...options, concurrency: 4 })) {
      assert.equal(result.kind, 'accepted');
      seen += 1;
      assert.ok(read <= seen + 5, `${read} read, ${seen} results`);
      if (seen === 20) break;
    }
    assert.ok(ended);
  });

  it('tries again while the queue is unavailable, and has each event accepted once', async () => {
    await redis.signal('SIGKILL');
    const retries: string[] = [];
    const results = all(
      sendEvents([event('patient-1'), event('patient-2')], {
        ...options,
        tries: 1_000,
        onRetry: ({ code }) => {
          if (retries.push(code) === 2) void redis.start();
        },
      }),
    );
    assert.deepEqual(
      (await results).map(({ kind }) => kind),
      ['accepted', 'accepted'],
    );
    assert.ok(retries.length >= 2 && retries.every((code) => code === 'QUEUE_UNAVAILABLE'), retries.join());
  });

  it('gives what waits for another try as interrupted when it is aborted', async () => {
    const stop = new AbortController();
    await redis.signal('SIGKILL');
    const onRetry = (): void => stop.abort();
    const results = await all(sendEvents([event('aborted')], { ...options, signal: stop.signal, onRetry }));
    assert.deepEqual(results, [{ kind: 'interrupted', event: event('aborted'), tries: 1 }]);
    await redis.start();
  });

  it('throws where the server is not trusted, and what its source throws', async () => {
    const { ca: _, ...untrusting } = options;
    await assert.rejects(all(sendEvents([event('x')], untrusting)), (cause: unknown) => {
      assert.ok(cause instanceof SendingStopped);
      assert.match(cause.message, /not trusted: .*UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN/);
      return true;
    });
    function* failing(): Generator<string> {
      yield event('before-the-failure');
      throw new Error('the source failed');
    }
    await assert.rejects(all(sendEvents(failing(), options)), /the source failed/);
  });
});
