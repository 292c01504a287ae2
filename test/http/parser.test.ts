// However the bytes of a pipeline are cut, the parser takes the same requests out of them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PLAIN_HEAD_BYTES_MAX } from '../../lib/http/plain/head.ts';
import { PlainParser } from '../../lib/http/plain/parser.ts';

interface Taken {
  readonly line: string;
  readonly fields: number;
  readonly type: string | undefined;
  readonly body: string;
}

/** All that comes of `chunks`, and what is left for a whole parser. */
function parse(chunks: readonly Buffer[]): { requests: Taken[]; left: string | undefined; inHead: boolean } {
  const parser = new PlainParser();
  const requests: Taken[] = [];
  let missing = 0;
  let body: Buffer[] = [];
  let notPlain = false;
  for (const chunk of chunks) {
    parser.push(chunk);
    while (!notPlain) {
      if (missing > 0) {
        const part = parser.body();
        if (part === undefined) break;
        missing -= part.length;
        body.push(part);
        if (missing === 0)
          requests.push({ ...(requests.pop() as Taken), body: Buffer.concat(body).toString('latin1') });
        continue;
      }
      const head = parser.next();
      if (head === 'more') break;
      if (head === 'not plain') {
        notPlain = true;
        break;
      }
      requests.push({
        line: `${head.method} ${head.target}`,
        fields: head.fieldCount,
        type: head.contentType,
        body: '',
      });
      missing = head.contentLength ?? 0;
      body = [];
    }
  }
  return { requests, left: notPlain ? parser.rest().toString('latin1') : undefined, inHead: parser.inHead };
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

describe('the plain parser', () => {
  it('takes the same requests out of a pipeline, and leaves the same rest, wherever it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(request, { minLength: 1, maxLength: 6 }),
        odd,
        fc.array(fc.nat(), { maxLength: 12 }),
        (pipeline, tail, places) => {
          const bytes = Buffer.concat([...pipeline, Buffer.from(tail)]);
          const whole = parse([bytes]);
          assert.equal(whole.requests.length, pipeline.length);
          assert.deepEqual(parse(cut(bytes, places)), whole);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('takes the same requests out of single bytes', () => {
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 3 }), odd, (pipeline, tail) => {
        const bytes = Buffer.concat([...pipeline, Buffer.from(tail)]);
        assert.deepEqual(parse([...bytes].map((byte) => Buffer.of(byte))), parse([bytes]));
      }),
      { numRuns: 100 },
    );
  });

  it('leaves a head over the limit to a whole parser, and takes one at the limit', () => {
    const head = (bytes: number): Buffer => {
      const text = 'GET / HTTP/1.1\r\nHost: g\r\nX: \r\n\r\n';
      return Buffer.from(text.replace('X: ', `X: ${'a'.repeat(bytes - text.length)}`));
    };
    for (const pieces of [1, 7, 100_000]) {
      const split = (bytes: Buffer): Buffer[] =>
        Array.from({ length: Math.ceil(bytes.length / pieces) }, (_, at) =>
          bytes.subarray(at * pieces, (at + 1) * pieces),
        );
      assert.equal(parse(split(head(PLAIN_HEAD_BYTES_MAX))).requests.length, 1);
      const over = head(PLAIN_HEAD_BYTES_MAX + 1);
      assert.equal(parse(split(over)).left, over.toString('latin1').slice(0, parse(split(over)).left?.length));
      assert.equal(parse(split(over)).requests.length, 0);
    }
  });
});
