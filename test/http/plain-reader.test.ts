import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PLAIN_HEAD_BYTES_MAX } from '../../lib/http/plain/head.ts';
import { PlainReader } from '../../lib/http/plain/reader.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

interface Taken {
  readonly line: string;
  readonly fields: number;
  readonly type: string | undefined;
  readonly body: string;
}

function read(chunks: readonly Buffer[]): { requests: Taken[]; left: string | undefined; inHead: boolean } {
  const reader = new PlainReader(new VirtualClock(), () => undefined);
  const requests: Taken[] = [];
  let isPlain = true;
  for (const chunk of chunks) {
    if (!isPlain) reader.push(chunk);
    for (
      let next = reader.next(isPlain ? chunk : undefined, isPlain);
      next !== 'more';
      next = reader.next(undefined, true)
    ) {
      if (next === 'body') continue;
      isPlain = next !== 'not plain';
      if (next === 'not plain') break;
      const { method, target, fieldCount, contentType } = next.head;
      const at = requests.push({ line: `${method} ${target}`, fields: fieldCount, type: contentType, body: '' }) - 1;
      const bodyRead = (body: Buffer | 'too large'): void => {
        requests[at] = { ...(requests[at] as Taken), body: body.toString('latin1') };
      };
      if (next.body === undefined) next.receive(1_000, { bodyGrows: () => undefined, bodyRead });
      else bodyRead(next.body);
    }
  }
  return { requests, left: isPlain ? undefined : reader.rest().toString('latin1'), inHead: reader.inHead };
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((one, other) => one - other);
  return [0, ...ends].map((from, at) => bytes.subarray(from, ends[at] ?? bytes.length));
}

const token = fc.stringMatching(/^[a-z0-9-]{1,12}$/);
const request = fc
  .record({
    empty: fc.constantFrom('', '\r\n', '\r\n\r\n'),
    target: token,
    fields: fc.array(fc.tuple(token, fc.stringMatching(/^[ -~]{0,40}$/)), { maxLength: 5 }),
    body: fc.option(fc.string({ maxLength: 60 }), { nil: undefined }),
  })
  .map(({ empty, target, fields, body }) => {
    const lines = fields.map(([name, value]) => `X-${name}: ${value}\r\n`).join('');
    const bytes = Buffer.from(body ?? '');
    const head = body === undefined ? 'GET' : 'POST';
    const length = body === undefined ? '' : `Content-Length: ${bytes.length}\r\nContent-Type: text/plain\r\n`;
    return Buffer.concat([
      Buffer.from(`${empty}${head} /${target} HTTP/1.1\r\nHost: g\r\n${lines}${length}\r\n`),
      bytes,
    ]);
  });
const odd = fc.constantFrom(
  '',
  'HEAD / HTTP/1.1\r\nHost: g\r\n\r\n',
  'GET /x HTTP/1.0\r\n\r\n',
  'POST /events HTT',
  '\r',
  'garbage',
);

describe('the plain reader', () => {
  it('finds the same requests and the same rest wherever a pipeline is cut', () => {
    fc.assert(
      fc.property(
        fc.array(request, { minLength: 1, maxLength: 6 }),
        odd,
        fc.array(fc.nat(), { maxLength: 12 }),
        (pipeline, tail, places) => {
          const bytes = Buffer.concat([...pipeline, Buffer.from(tail)]);
          const whole = read([bytes]);
          assert.equal(whole.requests.length, pipeline.length);
          assert.deepEqual(read(cut(bytes, places)), whole);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('finds the same requests in single bytes', () => {
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 3 }), odd, (pipeline, tail) => {
        const bytes = Buffer.concat([...pipeline, Buffer.from(tail)]);
        assert.deepEqual(read([...bytes].map((byte) => Buffer.of(byte))), read([bytes]));
      }),
      { numRuns: 100 },
    );
  });

  it('reads a head at the limit and leaves a longer one to node:http', () => {
    const head = (bytes: number): Buffer => {
      const text = 'GET / HTTP/1.1\r\nHost: g\r\nX: \r\n\r\n';
      return Buffer.from(text.replace('X: ', `X: ${'a'.repeat(bytes - text.length)}`));
    };
    for (const pieces of [1, 7, 100_000]) {
      const split = (bytes: Buffer): Buffer[] =>
        Array.from({ length: Math.ceil(bytes.length / pieces) }, (_, at) =>
          bytes.subarray(at * pieces, (at + 1) * pieces),
        );
      assert.equal(read(split(head(PLAIN_HEAD_BYTES_MAX))).requests.length, 1);
      const over = head(PLAIN_HEAD_BYTES_MAX + 1);
      assert.equal(read(split(over)).left, over.toString('latin1').slice(0, read(split(over)).left?.length));
      assert.equal(read(split(over)).requests.length, 0);
    }
  });
});

describe('the rest after a request that is not plain', () => {
  const head = 'POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n';

  it('holds every byte, the beginning of a head included', () => {
    for (const [pieces, rest] of [
      [['PUT / HTTP/1.1\r\n', 'more'], 'PUT / HTTP/1.1\r\nmore'],
      [['POST /a HT', 'TP/1.0\r\n', 'more'], 'POST /a HTTP/1.0\r\nmore'],
      [['\r', 'GET'], '\rGET'],
      [['\rGET'], '\rGET'],
      [[`X\n${head}`], `X\n${head}`],
      [[head, '\r\nPUT'], 'PUT'],
    ] as const)
      assert.equal(read(pieces.map((text) => Buffer.from(text))).left, rest);
  });

  it('begins as soon as an unfinished head has reached the limit, whatever preceded it', () => {
    const begin = (bytes: number): string => `GET / HTTP/1.1\r\nX: ${'x'.repeat(bytes - 19)}`;
    assert.equal(begin(PLAIN_HEAD_BYTES_MAX).length, PLAIN_HEAD_BYTES_MAX);
    assert.equal(read([Buffer.from(begin(PLAIN_HEAD_BYTES_MAX - 1))]).left, undefined);
    assert.equal(read([Buffer.from(begin(PLAIN_HEAD_BYTES_MAX))]).left?.length, PLAIN_HEAD_BYTES_MAX);
    const { requests, left, inHead } = read([Buffer.from(`${begin(5_000)}\r\nHost: g\r\n\r\n${begin(5_000)}`)]);
    assert.deepEqual([requests.length, left, inHead], [1, undefined, true]);
  });
});
