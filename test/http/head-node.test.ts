import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { HeadReader, type PlainHead } from '../../lib/http/plain/head.ts';
import { atEnd } from '../support/scope.ts';

const readHead = (text: string): PlainHead | 'unfinished' | 'not plain' => new HeadReader().read(text);

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly fields: number;
  body: string;
}

describe('node:http', () => {
  let port: number;
  let seen: Seen[] = [];
  let marked = (): void => undefined;

  before(async () => {
    const server = createServer({ requireHostHeader: false }, (request, response) => {
      const one: Seen = {
        method: request.method,
        url: request.url,
        headers: request.headers,
        fields: request.rawHeaders.length / 2,
        body: '',
      };
      seen.push(one);
      if (request.headers['x-marker'] === 'yes') marked();
      request.setEncoding('latin1');
      request.on('data', (text: string) => (one.body += text));
      request.on('end', () => response.end());
    });
    server.maxHeadersCount = 0;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
    atEnd(() => {
      server.closeAllConnections();
      server.close();
    });
  });

  /** Returns the requests that node:http reads from `text`, followed by a recognizable request. */
  async function throughNode(text: string): Promise<Seen[]> {
    seen = [];
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.resume();
    const settled = new Promise<void>((resolve) => {
      socket.once('close', () => resolve());
      marked = resolve;
    });
    socket.write(`${text}GET /marker HTTP/1.1\r\nX-Marker: yes\r\n\r\n`, 'latin1');
    await settled;
    socket.destroy();
    return seen;
  }

  const token = fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,20}$/);
  const value = fc.stringMatching(/^[\t\x20-\x7e]{0,30}$/);
  const space = fc.constantFrom('', ' ', '\t', '  ');
  const known = fc.constantFrom(
    'Host',
    'Content-Type',
    'content-type',
    'X-Request-Id',
    'Authorization',
    'Content-Encoding',
    'Connection',
    'Accept',
    'Transfer-Encoding',
    'Expect',
    'Upgrade',
    'Keep-Alive',
  );
  const knownValue = fc.constantFrom(
    'keep-alive',
    'close',
    'chunked',
    'application/json',
    '100-continue',
    'h2c',
    'gzip',
    'identity',
    'abc',
  );
  const field = fc
    .tuple(fc.oneof(token, known), space, fc.oneof(value, knownValue), space)
    .map(([name, a, text, b]) => `${name}:${a}${text}${b}\r\n`);
  const target = fc.stringMatching(/^\/[\x21-\x7e]{0,20}$/);
  const length = fc.oneof(
    fc.nat(40).map((bytes) => ({ bytes, text: `Content-Length: ${bytes}\r\n` })),
    fc.constant({ bytes: 0, text: '' }),
  );
  const requestWith = (line: fc.Arbitrary<string>): fc.Arbitrary<string> =>
    fc
      .tuple(
        fc.constantFrom('GET', 'POST'),
        target,
        fc.array(line, { maxLength: 8 }),
        length,
        fc.array(line, { maxLength: 3 }),
      )
      .map(
        ([method, path, some, { bytes, text }, more]) =>
          `${method} ${path} HTTP/1.1\r\nHost: g:1\r\n${some.join('')}${text}${more.join('')}\r\n${'x'.repeat(bytes)}`,
      );
  const request = requestWith(field);
  const harmless = requestWith(
    fc
      .tuple(fc.constantFrom('Accept', 'X-Trace', 'User-Agent', 'x_y'), space, value, space)
      .map(([name, a, text, b]) => `${name}:${a}${text}${b}\r\n`),
  );
  const damaged = fc.tuple(request, fc.nat(), fc.nat(2), fc.nat(255)).map(([text, place, how, code]) => {
    const at = place % text.length;
    return text.slice(0, at) + (how === 0 ? '' : String.fromCharCode(code)) + text.slice(how === 1 ? at : at + 1);
  });

  it('reads every plain request in the same way, and the next request from the same byte', async (t) => {
    let plain = 0;
    await fc.assert(
      fc.asyncProperty(fc.oneof(harmless, request, damaged), async (text) => {
        const head = readHead(text);
        if (typeof head === 'string') return;
        const end = head.bytes + (head.contentLength ?? 0);
        // A body that is cut short would swallow the recognizable request.
        if (end > text.length) return;
        plain += 1;
        const [first, second, ...others] = await throughNode(text.slice(0, end));
        assert.deepEqual(
          [first?.method, first?.url, first?.fields, first?.body],
          [head.method, head.target, head.fieldCount, text.slice(head.bytes, end)],
        );
        assert.deepEqual(
          [
            first?.headers['content-type'],
            first?.headers['content-encoding'],
            first?.headers.authorization,
            first?.headers['x-request-id'],
          ],
          [head.contentType, head.contentEncoding, head.authorization, head.requestId],
        );
        assert.deepEqual([second?.url, others], ['/marker', []]);
      }),
      { numRuns: 1_500 },
    );
    t.diagnostic(`${plain} of 1,500 were plain`);
    assert.ok(plain > 300);
  });
});
