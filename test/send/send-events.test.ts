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
  it('reads at most its concurrency ahead, and ends its source when the reader stops', async () => {
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

  it('tries again while the queue is unavailable, until each event is accepted', async () => {
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

  it('throws if the server is not trusted, and errors of its source', async () => {
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
