// However the bytes of a pipeline are cut, the parser takes the same requests out of them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PLAIN_HEAD_BYTES_MAX, PlainParser } from '../../lib/http/plain/parser.ts';

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

describe('what waits in the plain parser', () => {
  const headOf = (bytes: number): string => `POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: ${bytes}\r\n\r\n`;
  const parserOf = (text: string): PlainParser => {
    const parser = new PlainParser();
    parser.push(Buffer.from(text, 'latin1'));
    return parser;
  };
  const taken = (parser: PlainParser): string => {
    const head = parser.next();
    return typeof head === 'string' ? head : `${head.method} ${head.target}`;
  };

  it('is a body, given whole where all of it has come, and in parts where it has not', () => {
    const parser = parserOf(`${headOf(4)}ab`);
    assert.equal(taken(parser), 'POST /a');
    assert.deepEqual([parser.unread, parser.wholeBody()], [2, undefined]);
    assert.equal(parser.body()?.toString(), 'ab');
    assert.deepEqual([parser.unread, parser.body(), parser.wholeBody()], [0, undefined, undefined]);
    parser.push(Buffer.from(`cd${headOf(2)}`));
    assert.equal(parser.wholeBody()?.toString(), 'cd');
    assert.equal(parser.body(), undefined, 'what is behind it is no body');
    assert.equal(taken(parser), 'POST /a');
    parser.push(Buffer.from('ef'));
    assert.deepEqual([parser.wholeBody()?.toString(), parser.unread], ['ef', 0]);
  });

  it('is a body that must be taken before the next request is', () => {
    const parser = parserOf(`${headOf(2)}ab${headOf(0)}`);
    taken(parser);
    assert.throws(() => parser.next(), /the body of the request before was taken/);
    parser.body();
    assert.equal(taken(parser), 'POST /a');
  });

  it('is the beginning of a head, which counts as such and not as unread; an empty line is none', () => {
    for (const [text, inHead, unread] of [
      ['', false, 0],
      ['\r', false, 0],
      ['\r\n', false, 0],
      ['\r\n\r\n\r', false, 0],
      ['P', true, 0],
      ['\r\nPOST /a HT', true, 0],
      [headOf(0), false, 0],
      [`${headOf(0)}${headOf(0)}`, false, headOf(0).length],
    ] as const) {
      const parser = parserOf(text);
      taken(parser);
      assert.deepEqual([parser.inHead, parser.unread], [inHead, unread], JSON.stringify(text));
    }
  });

  it('is given away whole, the beginning of a head with it, and nothing waits then', () => {
    for (const [pushed, rest] of [
      [['PUT / HTTP/1.1\r\n', 'more'], 'PUT / HTTP/1.1\r\nmore'],
      [['POST /a HT', 'TP/1.0\r\n', 'more'], 'POST /a HTTP/1.0\r\nmore'],
      [['POST', ' /a'], 'POST /a'],
      [['\r'], '\r'],
      [['\r', 'GET'], '\rGET'],
      [['\rGET'], '\rGET'],
      [[`X\n${headOf(0)}`], `X\n${headOf(0)}`],
      [[`${headOf(4)}ab`], 'ab'],
      [[headOf(0), '\r\nGET'], 'GET'],
    ] as const) {
      const parser = new PlainParser();
      for (const text of pushed) {
        parser.push(Buffer.from(text));
        taken(parser);
      }
      assert.equal(parser.rest().toString(), rest);
      assert.deepEqual([parser.unread, parser.inHead, parser.body(), parser.rest().length], [0, false, undefined, 0]);
    }
  });

  it('is a long head, which may come whole or in parts', () => {
    for (const bytes of [1_000, 1_023, 1_024, 1_025, 2_000, 8_000]) {
      const text = headOf(0).replace('Host', `X: ${'x'.repeat(bytes - headOf(0).length - 5)}\r\nHost`);
      assert.equal(text.length, bytes);
      assert.equal(taken(parserOf(`${text}rest`)), 'POST /a');
      for (const cutAt of [1, 500, bytes - 1]) {
        const parser = parserOf(text.slice(0, cutAt));
        assert.deepEqual([taken(parser), parser.unread], ['more', 0]);
        parser.push(Buffer.from(`${text.slice(cutAt)}rest`));
        assert.deepEqual([taken(parser), parser.unread], ['POST /a', 4]);
      }
    }
  });

  it('is a head until it has reached the limit without an end, whatever came before it in the same piece', () => {
    const begin = (bytes: number): string => `GET / HTTP/1.1\r\nX: ${'x'.repeat(bytes - 19)}`;
    assert.equal(begin(PLAIN_HEAD_BYTES_MAX).length, PLAIN_HEAD_BYTES_MAX);
    assert.equal(taken(parserOf(begin(PLAIN_HEAD_BYTES_MAX - 1))), 'more');
    assert.equal(taken(parserOf(begin(PLAIN_HEAD_BYTES_MAX))), 'not plain');
    const parser = parserOf(`${begin(5_000)}\r\nHost: g\r\n\r\n${begin(5_000)}`);
    assert.deepEqual([taken(parser), taken(parser), parser.inHead], ['GET /', 'more', true]);
  });
});
