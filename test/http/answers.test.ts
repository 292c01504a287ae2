import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { connect } from 'node:tls';
import fc from 'fast-check';
import type { Connection } from '../../lib/http/connection.ts';
import { PLAIN_HEAD_BYTES_MAX } from '../../lib/http/plain/head.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { HttpsServer } from '../../lib/http/server.ts';
import { LIMITS } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';
import { requestText } from '../support/wire.ts';
import { SYSTEM } from '../support/system.ts';

const BODY_BYTES_MAX = 64;
const SHORT = requestText('GET /long', ['X: ']);

const ignored = (): void => undefined;

/** Answers with a copy of the request. Some answers are late, so that later requests are ready before them. */
function echo(connection: Connection<undefined>, request: HttpRequest): void {
  const { method, target, defect } = request.head;
  const answer = (status: number, text: string): void => {
    const body = `${method} ${target} ${text}`;
    const respond = (): void => connection.respond(request, 'id', { status, contentType: 'text/plain', body }, false);
    if (target.length % 3 === 0) setImmediate(respond);
    else respond();
  };
  request.listener = { aborted: ignored, fault: () => false };
  const bodyRead = (body: Buffer | 'too large'): void =>
    body === 'too large' ? answer(413, body) : answer(200, body.toString('latin1'));
  if (defect !== undefined) answer(400, defect);
  else if (method === 'GET') answer(200, 'no body');
  else if (request.body === undefined) request.receive(BODY_BYTES_MAX, { bodyGrows: ignored, bodyRead });
  else bodyRead(request.body.length > BODY_BYTES_MAX ? 'too large' : request.body);
}

describe('a pipeline of requests', () => {
  const ports: Record<'own' | 'node', number> = { own: 0, node: 0 };
  before(async () => {
    const { server } = await Pki.create();
    for (const httpReader of ['own', 'node'] as const) {
      const https = new HttpsServer<undefined>(
        { cert: server.certificate, key: server.key },
        { ...LIMITS, httpReader },
        {
          context: () => undefined,
          request: echo,
          producerOf: () => undefined,
          protocolFault: (fault) =>
            `HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\nX: ${fault}\r\n\r\n`,
          plainHttp: () => '',
          handshakeFailure: ignored,
        },
        SYSTEM,
      );
      ports[httpReader] = (await https.listen('127.0.0.1', 0)).port;
      atEnd(() => https.drain());
    }
  });

  function answers(port: number, chunks: readonly Buffer[]): Promise<string> {
    return new Promise((resolve, reject) => {
      let received = '';
      const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
      socket.setEncoding('latin1').on('data', (text: string) => (received += text));
      socket.once('error', reject).once('end', () => {
        socket.end();
        resolve(received);
      });
      const send = (at: number): void => {
        const chunk = chunks[at];
        if (chunk !== undefined && socket.writable) socket.write(chunk, () => setImmediate(send, at + 1));
      };
      socket.setNoDelay(true).once('secureConnect', () => send(0));
    });
  }

  const target = fc.stringMatching(/^\/[a-z]{1,5}$/);
  const request = fc.oneof(
    { weight: 3, arbitrary: target.map((path) => requestText(`GET ${path}`)) },
    {
      weight: 6,
      arbitrary: fc
        .tuple(target, fc.stringMatching(/^[ -~]{1,80}$/))
        .map(([path, body]) => requestText(`POST ${path}`, ['Content-Type: text/plain'], body)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        requestText('POST /chunked', ['Transfer-Encoding: chunked']) + '3\r\nabc\r\n0\r\n\r\n',
        requestText('PUT /empty', ['Content-Length: 0']),
        requestText('GET /twice', ['Host: one', 'Host: two']),
        `\r\n${requestText('GET /blank')}`,
      ),
    },
    {
      weight: 1,
      arbitrary: fc
        .integer({ min: -3, max: 3 })
        .map((more) => requestText('GET /long', [`X: ${'x'.repeat(PLAIN_HEAD_BYTES_MAX - SHORT.length + more)}`])),
    },
  );
  const last = fc.constantFrom(requestText('GET /last', ['Connection: close']), 'no request\r\n\r\n');

  const without = (text: string): string => text.replaceAll(/^(?:Date|Keep-Alive): .*\r\n/gm, '');
  function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
    const ends = [...new Set(places.map((place) => place % bytes.length))].sort((one, other) => one - other);
    return [0, ...ends]
      .map((from, at) => bytes.subarray(from, ends[at] ?? bytes.length))
      .filter(({ length }) => length > 0);
  }

  it('gets the same answers wherever it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { maxLength: 6 }),
        last,
        fc.array(fc.nat(), { maxLength: 12 }),
        async (pipeline, end, places) => {
          const bytes = Buffer.from(pipeline.join('') + end, 'latin1');
          const whole = without(await answers(ports.own, [bytes]));
          assert.equal(without(await answers(ports.own, cut(bytes, places))), whole);
          assert.equal(without(await answers(ports.node, cut(bytes, places))), whole);
        },
      ),
      { numRuns: 40 },
    );
  });
});
