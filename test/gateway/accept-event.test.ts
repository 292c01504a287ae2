// The way of one event, on a queue that a test answers for: what is asked before what, and that what was admitted is
// given back once, however the exchange ends.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { acceptEvent } from '../../lib/gateway/accept-event.ts';
import { Admission } from '../../lib/gateway/admission.ts';
import { codedBytesMax } from '../../lib/gateway/content-coding.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import type { RequestHead } from '../../lib/http/request.ts';
import type { Authority } from '../../lib/identity/authority.ts';
import { unauthenticated, type Verdict } from '../../lib/identity/producer-identity.ts';
import type { Queue, Submission } from '../../lib/ingest/queue.ts';
import { event } from '../support/client.ts';
import { exchanging, SHOP } from '../support/exchange.ts';
import { eventually } from '../support/scope.ts';

const BODY_BYTES_MAX = 100_000;
const EVENT = Buffer.from(event('a'));

interface Given {
  readonly head?: Partial<RequestHead>;
  readonly verdict?: Verdict | Promise<Verdict>;
  readonly holder?: string;
  readonly known?: boolean;
  /** The only row of the producers file. */
  readonly row?: object;
  /** How many events and bytes may be in flight. */
  readonly room?: readonly [events: number, bytes: number];
  readonly submit?: (submission: Submission) => void;
}

/** An event on its way, from its head on. */
function accepting(given: Given = {}) {
  const length = { contentLength: EVENT.length };
  const { holder = 'shop', known = true } = given;
  const about = exchanging(given.head ?? length, { holder, known });
  const { clock, metrics, exchange, request } = about;
  const admission = new Admission(...(given.room ?? [10, 1_000_000]));
  const submitted: Submission[] = [];
  const options = {
    clock,
    queue: { submit: given.submit ?? ((submission) => void submitted.push(submission)) } as Queue,
    authority: { judge: () => given.verdict ?? SHOP } as unknown as Authority,
    admission,
    metrics,
    quotas: new Quotas(Producers.parse(JSON.stringify({ producers: { '*': given.row ?? {} } })), undefined, clock),
    bodyBytesMax: BODY_BYTES_MAX,
    eventId: 'id',
    challenge: () => 'who are you',
    spans: undefined,
  } as const;
  const begin = (): ReturnType<typeof acceptEvent> => {
    const answer = acceptEvent(options, exchange);
    if (!(answer instanceof Promise)) exchange.answer(answer);
    return answer;
  };
  const inFlight = (): readonly number[] => [admission.events, admission.bytes];
  const code = (): unknown => (JSON.parse(String(request.answers[0]?.answer.body)) as { readonly code: unknown }).code;
  return { ...about, admission, submitted, options, begin, inFlight, code };
}

const BROKEN_GZIP = Buffer.from('no gzip');
const gzipped = (bytes: number): Given => ({ head: { contentEncoding: 'gzip', contentLength: bytes } });

describe('what was admitted of an event', () => {
  type Way = ReturnType<typeof accepting>;
  const ends: Readonly<Record<string, readonly [given: Given, end: (way: Way) => void, statuses: readonly number[]]>> =
    {
      'the queue accepts it': [
        {},
        ({ request, submitted }) => {
          request.taker?.bodyRead(EVENT);
          submitted[0]?.settle('accepted');
        },
        [202],
      ],
      'the queue is away': [
        {},
        ({ request, submitted }) => {
          request.taker?.bodyRead(EVENT);
          submitted[0]?.settle('unavailable');
        },
        [503],
      ],
      'it is no event': [{}, ({ request }) => request.taker?.bodyRead(Buffer.from('{}')), [400]],
      'it is too large': [{}, ({ request }) => request.taker?.bodyRead('too large'), [413]],
      'its type is not allowed': [
        { row: { types: ['other'] } },
        ({ request }) => request.taker?.bodyRead(EVENT),
        [403],
      ],
      'it cannot be decoded': [gzipped(7), ({ request }) => request.taker?.bodyRead(BROKEN_GZIP), [400]],
      'its body grows beyond what may be in flight': [
        { head: {}, room: [10, 1_000] },
        ({ admission, request }) => {
          admission.admit('other', 10);
          request.taker?.bodyGrows(700);
          request.taker?.bodyGrows(700);
          admission.release('other', 10);
        },
        [503],
      ],
      'the client gives up before its body has come': [{}, ({ request }) => request.listener?.aborted(), []],
      'the rest of it cannot be read': [{}, ({ request }) => request.listener?.fault('timeout'), [408]],
    };
  for (const [what, [given, end, statuses]] of Object.entries(ends))
    it(`is given back once where ${what}`, () => {
      const way = accepting(given);
      way.begin();
      assert.equal(way.admission.events, 1);
      assert.equal(way.admission.bytes, given.head === undefined ? EVENT.length : (given.head.contentLength ?? 0));
      end(way);
      assert.deepEqual(way.inFlight(), [0, 0]);
      assert.deepEqual(way.request.statuses, statuses);
      way.exchange.aborted();
      way.request.taker?.bodyGrows(5);
      way.request.taker?.bodyRead(EVENT);
      for (const submission of way.submitted) submission.settle('accepted');
      assert.deepEqual(way.inFlight(), [0, 0]);
      assert.deepEqual(way.request.statuses, statuses);
      assert.ok(way.submitted.length <= 1);
    });

  it('is held until the queue has answered', () => {
    const { begin, request, submitted, inFlight } = accepting();
    begin();
    request.taker?.bodyRead(EVENT);
    assert.deepEqual(inFlight(), [1, EVENT.length]);
    assert.deepEqual(request.answers, []);
    submitted[0]?.settle('accepted');
    assert.deepEqual(inFlight(), [0, 0]);
  });

  it('grows with a body that announced no length, and all of that is given back', () => {
    const { begin, request, submitted, inFlight } = accepting({ head: {} });
    begin();
    for (const bytes of [5, 7]) request.taker?.bodyGrows(bytes);
    assert.deepEqual(inFlight(), [1, 12]);
    request.taker?.bodyRead(EVENT);
    submitted[0]?.settle('accepted');
    assert.deepEqual(inFlight(), [0, 0]);
  });

  it('grows by what a body becomes longer when it is decoded, and does not shrink', () => {
    const long = event('long', { text: 'x'.repeat(1_000) });
    for (const body of [long, '{"id":"s","type":"t"}']) {
      const coded = gzipSync(body);
      const { begin, request, submitted, inFlight } = accepting(gzipped(coded.length));
      begin();
      assert.deepEqual(inFlight(), [1, coded.length]);
      request.taker?.bodyRead(coded);
      assert.deepEqual(inFlight(), [1, Math.max(coded.length, body.length)]);
      assert.equal(submitted[0]?.text, body);
      submitted[0].settle('accepted');
      assert.deepEqual(inFlight(), [0, 0]);
    }
  });

  it('is refused where its decoded body is more than may be in flight', () => {
    const coded = gzipSync(event('long', { text: 'x'.repeat(1_000) }));
    const { begin, admission, request, submitted, code } = accepting({ ...gzipped(coded.length), room: [10, 1_000] });
    admission.admit('other', 10);
    begin();
    request.taker?.bodyRead(coded);
    assert.equal(code(), 'QUEUE_OVERLOADED');
    assert.deepEqual(submitted, []);
    assert.equal(admission.events, 1);
  });

  it('is given back where the exchange ends while its body is decoded, which is then not submitted', async () => {
    const coded = gzipSync(event('long', { text: 'x'.repeat(50_000) }));
    const { begin, request, submitted, inFlight } = accepting(gzipped(coded.length));
    begin();
    request.taker?.bodyRead(coded);
    request.listener?.aborted();
    assert.deepEqual(inFlight(), [0, 0]);
    const later = accepting(gzipped(coded.length));
    later.begin();
    later.request.taker?.bodyRead(coded);
    await eventually('one that came later is submitted', () => later.submitted.length === 1);
    assert.deepEqual(submitted, []);
    assert.deepEqual(inFlight(), [0, 0]);
  });

  it('is held while a bug is answered for, which is passed on', () => {
    const bug = new Error('a bug');
    const submit = (): never => {
      throw bug;
    };
    const { begin, bugs, request, exchange, inFlight } = accepting({ submit });
    begin();
    request.taker?.bodyRead(EVENT);
    assert.deepEqual(bugs, [bug]);
    exchange.answer({ status: 500, contentType: 'text/plain', body: '' });
    assert.deepEqual(inFlight(), [0, 0]);
  });
});

describe('an event', () => {
  it('goes to the queue as it came, under its id and its producer', () => {
    const { begin, request, submitted } = accepting();
    begin();
    assert.equal(request.bytesMax, BODY_BYTES_MAX);
    request.taker?.bodyRead(EVENT);
    const [{ id, producer, text, notes } = {}] = submitted;
    assert.deepEqual(
      { id, producer, text, notes },
      {
        id: 'a',
        producer: 'shop',
        text: EVENT.toString(),
        notes: undefined,
      },
    );
  });

  it('is counted as what the queue says of it, and not at all where its client is gone', () => {
    const count = (outcome: 'accepted' | 'duplicate' | 'differing' | 'shed', gone = false): readonly number[] => {
      const { begin, request, submitted, metrics } = accepting();
      begin();
      request.taker?.bodyRead(EVENT);
      if (gone) request.listener?.aborted();
      submitted[0]?.settle(outcome);
      return [metrics.accepted, metrics.duplicates, metrics.differing, metrics.shed].map(({ value }) => value);
    };
    assert.deepEqual(count('accepted'), [1, 0, 0, 0]);
    assert.deepEqual(count('duplicate'), [0, 1, 0, 0]);
    assert.deepEqual(count('differing'), [0, 1, 1, 0]);
    assert.deepEqual(count('shed'), [0, 0, 0, 1]);
    assert.deepEqual(count('accepted', true), [0, 0, 0, 0]);
  });

  it('that the queue does not take says why, and whether to send it again', () => {
    for (const [outcome, code, retryable, detail] of [
      ['conflict', 'EVENT_ID_CONFLICT', false, /another producer's event has this id.* begin yours with your name/],
      ['unavailable', 'QUEUE_UNAVAILABLE', true, /the queue did not take the event in time/],
    ] as const) {
      const { begin, request, submitted } = accepting();
      begin();
      request.taker?.bodyRead(EVENT);
      submitted[0]?.settle(outcome);
      const problem = JSON.parse(String(request.answers[0]?.answer.body)) as Record<string, unknown>;
      assert.equal(problem['code'], code);
      assert.equal(problem['retryable'], retryable);
      assert.match(String(problem['detail']), detail);
    }
  });

  it('of nobody who is known is refused before anything else is looked at', () => {
    const { begin, request, code, asked, inFlight } = accepting({
      verdict: unauthenticated('who'),
      holder: '',
      head: { contentType: 'text/plain' },
    });
    begin();
    assert.equal(code(), 'UNAUTHORIZED_PRODUCER');
    assert.deepEqual(request.answers[0]?.answer.headers?.slice(-2), ['WWW-Authenticate', 'who are you']);
    assert.deepEqual(asked, []);
    assert.deepEqual(inFlight(), [0, 0]);
  });

  it('makes its connection known, once, and is refused where its producer may have no other', () => {
    const known = accepting();
    known.begin();
    assert.deepEqual(known.asked, []);
    const first = accepting({ holder: '' });
    first.begin();
    assert.deepEqual(first.asked, ['shop']);
    assert.deepEqual(first.request.answers, []);
    const short = accepting({ holder: '', known: false });
    short.begin();
    assert.equal(short.code(), 'QUEUE_OVERLOADED');
    assert.match(String(short.request.answers[0]?.answer.body), /all connections are in use/);
    assert.deepEqual(short.inFlight(), [0, 0]);
  });

  it('over the quota of its producer is refused before its media type is looked at', () => {
    const { begin, code } = accepting({ row: { disabled: 'moved' }, head: { contentType: 'text/plain' } });
    begin();
    assert.equal(code(), 'PRODUCER_DISABLED');
  });

  it('is refused by its announced length, at one byte over the limit, and takes no room', () => {
    for (const [contentEncoding, bytesMax] of [
      [undefined, BODY_BYTES_MAX],
      ['gzip', codedBytesMax(BODY_BYTES_MAX)],
    ] as const) {
      const over = accepting({ head: { contentEncoding, contentLength: bytesMax + 1 } });
      over.begin();
      assert.deepEqual(over.request.statuses, [413]);
      assert.equal(over.request.taker, undefined);
      assert.deepEqual(over.inFlight(), [0, 0]);
      const within = accepting({ head: { contentEncoding, contentLength: bytesMax } });
      within.begin();
      assert.equal(within.request.bytesMax, bytesMax);
    }
  });

  it('is refused where too many are in flight, and its body is not asked for', () => {
    const { begin, admission, request, code } = accepting({ room: [1, 1_000] });
    admission.admit('other', 1);
    begin();
    assert.equal(code(), 'QUEUE_OVERLOADED');
    assert.match(String(request.answers[0]?.answer.body), /"detail":"too many events or bytes are in flight"/);
    assert.equal(request.taker, undefined);
    assert.equal(admission.events, 1);
  });

  it('whose producer is found out later goes on where it was', async () => {
    const { begin, exchange, request } = accepting({ verdict: Promise.resolve(SHOP) });
    exchange.answer(await begin());
    assert.deepEqual(request.answers, []);
    assert.equal(request.bytesMax, BODY_BYTES_MAX);
  });

  it('whose exchange has ended, or whose client is gone, when its producer is found out takes no room', async () => {
    const ended = accepting({ verdict: Promise.resolve(SHOP), row: { rate: 1 } });
    const answer = ended.begin();
    ended.request.listener?.fault('timeout');
    assert.equal(await answer, undefined);
    assert.deepEqual(ended.request.statuses, [408]);
    const gone = accepting({ verdict: Promise.resolve(SHOP) });
    const pending = gone.begin();
    gone.request.gone = true;
    assert.equal(await pending, undefined);
    assert.equal(gone.metrics.aborted.value, 1);
    for (const { request, inFlight } of [ended, gone]) {
      assert.equal(request.taker, undefined);
      assert.deepEqual(inFlight(), [0, 0]);
    }
  });
});
