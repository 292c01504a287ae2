// The sender alone: what it does about each result of a try. The tries are functions of the test.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NO_ANSWER, type Try } from '../../lib/send/try.ts';
import {
  reasonOf,
  sendAll,
  SendingStopped,
  type Retry,
  type SenderOptions,
  type SendResult,
} from '../../lib/send/sender.ts';
import { SYSTEM } from '../support/system.ts';

const ACCEPTED: Try = { kind: 'accepted', duplicate: false, differs: false, requestId: 'r' };
const again = (code = 'QUEUE_UNAVAILABLE', status = 503, afterMs = 0): Try => ({
  kind: 'retry',
  code,
  status,
  answer: { detail: 'later' },
  requestId: 'r',
  afterMs,
});
const refusal = (code: string, status: number, detail = 'no'): Try => ({
  kind: 'refused',
  code,
  status,
  answer: { detail },
  requestId: undefined,
});

const sending = <T>(options: Partial<SenderOptions<T>>): SenderOptions<T> => ({
  ...SYSTEM,
  send: async () => ACCEPTED,
  concurrency: 1,
  triesMax: 3,
  ratePerS: undefined,
  signal: new AbortController().signal,
  onRetry: () => undefined,
  ...options,
});

async function all<T>(
  events: Iterable<T> | AsyncIterable<T>,
  options: Partial<SenderOptions<T>>,
): Promise<SendResult<T>[]> {
  const results: SendResult<T>[] = [];
  for await (const result of sendAll(events, sending(options))) results.push(result);
  return results;
}

/** Without the time, which differs. */
const facts = <T>(results: readonly SendResult<T>[]): object[] =>
  results.map((result) => {
    if (result.kind === 'interrupted') return result;
    const { answerMs, ...rest } = result;
    assert.ok(answerMs >= 0 && answerMs < 60_000);
    return rest;
  });

/** Try after try: what the list says, the last one for ever. */
const tries = (...list: readonly Try[]) => {
  let at = 0;
  return async (): Promise<Try> => list[Math.min(at++, list.length - 1)] ?? ACCEPTED;
};

describe('sendAll', () => {
  it('gives what was accepted, with what the gateway says of it', async () => {
    const send = async (event: string): Promise<Try> => ({
      ...ACCEPTED,
      duplicate: event === 'b',
      differs: event === 'b',
    });
    assert.deepEqual(facts(await all(['a', 'b'], { send })), [
      { kind: 'accepted', event: 'a', duplicate: false, differs: false, requestId: 'r', tries: 1 },
      { kind: 'accepted', event: 'b', duplicate: true, differs: true, requestId: 'r', tries: 1 },
    ]);
  });

  it('tries again until it is accepted, and tells each repeated try before its pause', async () => {
    const retries: Retry[] = [];
    const results = await all(['a'], {
      send: tries(again(), again(NO_ANSWER, 0), ACCEPTED),
      onRetry: (retry) => retries.push(retry),
    });
    assert.deepEqual(facts(results), [
      { kind: 'accepted', event: 'a', duplicate: false, differs: false, requestId: 'r', tries: 3 },
    ]);
    assert.deepEqual(
      retries.map(({ pauseMs: _, ...rest }) => rest),
      [
        { code: 'QUEUE_UNAVAILABLE', status: 503, answer: { detail: 'later' }, tries: 1 },
        { code: NO_ANSWER, status: 0, answer: { detail: 'later' }, tries: 2 },
      ],
    );
    const [first, second] = retries.map(({ pauseMs }) => pauseMs);
    assert.ok((first ?? 0) >= 50 && (first ?? 0) <= 100, String(first));
    assert.ok((second ?? 0) >= 100 && (second ?? 0) <= 200, String(second));
  });

  it('pauses no longer than ten seconds, and as long as the gateway asks', async () => {
    const pauses: number[] = [];
    const stop = new AbortController();
    const onRetry = ({ pauseMs }: Retry): void => {
      pauses.push(pauseMs);
      stop.abort();
    };
    await all(['a'], { send: tries(again('QUEUE_UNAVAILABLE', 503, 77_000)), onRetry, signal: stop.signal });
    assert.deepEqual(pauses, [77_000]);
  });

  it('gives up after its tries, and says that another run may do it', async () => {
    assert.deepEqual(facts(await all(['a'], { send: tries(again()), triesMax: 2 })), [
      {
        kind: 'refused',
        event: 'a',
        code: 'QUEUE_UNAVAILABLE',
        status: 503,
        answer: { detail: 'later' },
        retryable: true,
        requestId: 'r',
        tries: 2,
      },
    ]);
  });

  it('does not try again what is refused', async () => {
    assert.deepEqual(facts(await all(['a'], { send: tries(refusal('INVALID_EVENT', 400)) })), [
      {
        kind: 'refused',
        event: 'a',
        code: 'INVALID_EVENT',
        status: 400,
        answer: { detail: 'no' },
        retryable: false,
        requestId: undefined,
        tries: 1,
      },
    ]);
  });

  for (const status of [401, 403])
    it(`stops when the first ten answers are ${status}, after their results`, async () => {
      const results: unknown[] = [];
      const run = async (): Promise<void> => {
        const options = sending<number>({ send: tries(refusal('UNAUTHORIZED_PRODUCER', status, 'no\u001baudience')) });
        for await (const result of sendAll(Array(100).keys(), options)) results.push(result);
      };
      await assert.rejects(run(), (cause: unknown) => {
        assert.ok(cause instanceof SendingStopped);
        assert.equal(cause.name, 'SendingStopped');
        assert.equal(
          cause.message,
          `the gateway does not accept this producer: the first 10 answers were ${status} UNAUTHORIZED_PRODUCER (no\\u001baudience)`,
        );
        return true;
      });
      assert.equal(results.length, 10);
    });

  it('does not stop at refusals once another answer came, be it an acceptance or another refusal', async () => {
    for (const first of [ACCEPTED, refusal('INVALID_EVENT', 400), again('QUEUE_OVERLOADED', 503)]) {
      const results = await all(Array(30).keys(), {
        send: tries(first, refusal('TYPE_NOT_ALLOWED', 403)),
        triesMax: 1,
      });
      assert.equal(results.length, 30);
    }
  });

  it('counts no answer as none of the first ten', async () => {
    const send = tries(again(NO_ANSWER, 0), refusal('UNAUTHORIZED_PRODUCER', 401));
    await assert.rejects(all(Array(30).keys(), { send, triesMax: 1 }), SendingStopped);
  });

  it('stops at once where the server is not trusted', async () => {
    const send = tries({ kind: 'untrusted', reason: 'a\u0007certificate' });
    await assert.rejects(all(['a', 'b'], { send }), {
      name: 'SendingStopped',
      message: 'the server is not trusted: a\\u0007certificate',
    });
  });

  it('throws what a try throws and what its source throws, after the results until then', async () => {
    const send = async (): Promise<Try> => Promise.reject(new Error('the disk is full'));
    await assert.rejects(all(['a'], { send }), /the disk is full/);
    function* failing(): Generator<string> {
      yield 'a';
      throw new Error('the source failed');
    }
    const seen: string[] = [];
    const run = async (): Promise<void> => {
      for await (const { event } of sendAll(failing(), sending({}))) seen.push(event);
    };
    await assert.rejects(run(), /the source failed/);
    assert.deepEqual(seen, ['a']);
  });

  it('has as many events on their way as its concurrency says, and no more', async () => {
    for (const concurrency of [1, 3]) {
      let now = 0;
      let most = 0;
      const send = async (): Promise<Try> => {
        most = Math.max(most, (now += 1));
        await new Promise((resolve) => setImmediate(resolve));
        await new Promise((resolve) => setImmediate(resolve));
        now -= 1;
        return ACCEPTED;
      };
      assert.equal((await all(Array(20).keys(), { send, concurrency })).length, 20);
      assert.equal(most, concurrency);
    }
  });

  it('starts no more events in a second than its rate says', async () => {
    const startMs = performance.now();
    await all(Array(6).keys(), { ratePerS: 50, concurrency: 6 });
    assert.ok(performance.now() - startMs >= 95, 'five pauses of 20 ms');
  });

  it('sends nothing once it is aborted, and calls what waits interrupted', async () => {
    const stop = new AbortController();
    let sent = 0;
    const send = async (): Promise<Try> => {
      sent += 1;
      return again();
    };
    const results = await all(Array(20).keys(), {
      send,
      signal: stop.signal,
      onRetry: () => stop.abort(),
      concurrency: 2,
    });
    assert.ok(sent <= 2);
    assert.deepEqual(results[0], { kind: 'interrupted', event: 0, tries: 1 });
    assert.equal(results.length, sent);
    const before = new AbortController();
    before.abort();
    assert.deepEqual(await all(['a'], { signal: before.signal }), []);
  });

  it('ends its source when the reader stops, and does not wait for a source that waits', async () => {
    let ended = false;
    async function* source(): AsyncGenerator<number> {
      try {
        for (let at = 0; ; at += 1) yield at;
      } finally {
        ended = true;
      }
    }
    for await (const { event } of sendAll(source(), sending({}))) if (event === 3) break;
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(ended, true);
    const stop = new AbortController();
    async function* waiting(): AsyncGenerator<number> {
      yield 1;
      await new Promise(() => undefined);
    }
    for await (const { event } of sendAll(waiting(), sending({ signal: stop.signal }))) {
      assert.equal(event, 1);
      stop.abort();
    }
  });
});

describe('the reason of an answer', () => {
  it('is its detail, else its error, else its title, else itself', () => {
    assert.equal(reasonOf({ detail: 'd', error: 'e', title: 't' }), 'd');
    assert.equal(reasonOf({ detail: 7, error: 'e', title: 't' }), 'e');
    assert.equal(reasonOf({ title: 't' }), 't');
    assert.equal(reasonOf('text'), 'text');
    for (const none of [{}, null, undefined, 7, []]) assert.equal(reasonOf(none), 'no reason given');
  });

  it('has at most 200 characters', () => {
    assert.equal(reasonOf('x'.repeat(300)), 'x'.repeat(200));
  });
});
