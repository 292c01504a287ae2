import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { postText, repliesIn, requestText } from '../support/wire.ts';

let gateway: TestGateway;
let producer: ClientCertificate;

before(async () => {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  producer = await pki.producer('one');
  gateway = await TestGateway.start(redis, pki, PATIENT);
});

const chunked = (id: string): string => {
  const body = event(id);
  const coded = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  return requestText(
    'POST /events',
    ['Content-Type: application/json', `X-Request-Id: ${id}`, 'Transfer-Encoding: chunked'],
    coded,
  );
};
const counted = (id: string): string => postText(event(id), [`X-Request-Id: ${id}`]);

/** The bytes before the client ends its side, and the status of the answer to them, if there is one. */
const CASES: Readonly<Record<string, readonly [cut: string, status: number | undefined]>> = {
  'inside a body with a length': [counted('cut-1').slice(0, -8), undefined],
  'inside a chunk': [chunked('cut-2').slice(0, -12), undefined],
  'before a body': [requestText('POST /events', ['Content-Type: application/json', 'Content-Length: 40']), undefined],
  'before a body that is of an unknown coding': [
    requestText('POST /health/live', ['Transfer-Encoding: gzip, chunked', `X-Long: ${'x'.repeat(500)}`]),
    400,
  ],
  'inside a head': ['POST /events HTTP/1.1\r\nHost: g\r\nContent-', 400],
};

describe('a client that ends its side inside a later request', () => {
  for (const [name, [cut, status]] of Object.entries(CASES)) {
    for (const first of ['own reader', 'node:http'] as const) {
      it(`${name} gets the answers to the requests before it (${first})`, async () => {
        const [a, b] = [`a ${name} ${first}`, `b ${name} ${first}`].map((id) => id.replaceAll(/[^a-z]/g, '-')) as [
          string,
          string,
        ];
        const connection = await gateway.socket(producer);
        connection.socket.end((first === 'own reader' ? counted(a) : chunked(a)) + counted(b) + cut, 'latin1');
        await connection.untilClosed();
        const replies = repliesIn(connection.received);
        assert.deepEqual(
          replies.slice(0, 2).map((reply) => [reply.status, reply.headers['x-request-id']]),
          [
            [202, a],
            [202, b],
          ],
        );
        assert.ok(replies.length <= 3, connection.received);
        for (const reply of replies.slice(2)) assert.equal(reply.status, status, connection.received);
      });
    }
  }
});
