import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it, type TestContext } from 'node:test';
import tls, { type TLSSocket } from 'node:tls';
import { DirectReader } from '../../lib/http/direct-reader.ts';
import { DirectRequest } from '../../lib/http/direct-request.ts';
import { Outbox } from '../../lib/http/outbox.ts';
import { OwedAnswers } from '../../lib/http/owed-answers.ts';
import { readHead } from '../../lib/http/request-head.ts';
import { CertificateAuthority } from '../../lib/identity/certificate-authority.ts';

const EVENT = 'POST /events HTTP/1.1\r\nContent-Length: 0\r\n\r\n';
const LOOKUP = 'GET /events/a HTTP/1.1\r\n\r\n';

interface Pair {
  readonly owed: OwedAnswers;
  readonly client: TLSSocket;
  /** A request on the server's side of the connection. */
  readonly request: (head: string) => DirectRequest;
}

async function connected(t: TestContext): Promise<Pair> {
  const authority = await CertificateAuthority.create('test authority');
  const { certificate: cert, key } = await authority.issue({
    commonName: 'localhost',
    dnsNames: ['localhost'],
    server: true,
  });
  const server = tls.createServer({ cert, key }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const client = tls.connect({ port, host: '127.0.0.1', servername: 'localhost', ca: authority.certificate });
  const [socket] = (await once(server, 'secureConnection')) as [TLSSocket];
  t.after(() => {
    client.destroy();
    server.close();
  });
  const ignored = (): void => undefined;
  const reader = new DirectReader({
    socket,
    outbox: new Outbox(),
    keepAlive: '',
    request: ignored,
    cutOff: ignored,
    left: ignored,
  });
  return {
    owed: new OwedAnswers(socket),
    client,
    request: (text) => {
      const head = readHead(text);
      if (typeof head === 'string') throw new Error(head);
      return new DirectRequest(reader, head, undefined);
    },
  };
}

async function received(client: TLSSocket, length: number): Promise<string> {
  let text = '';
  while (text.length < length) text += String(((await once(client, 'data')) as [Buffer])[0]);
  return text;
}

describe('the answers that a connection owes', () => {
  it('are enough at 256 events or at 16 look-ups, whose answers may be large', async (t) => {
    for (const [head, most] of [
      [EVENT, 256],
      [LOOKUP, 16],
    ] as const) {
      const { owed, request } = await connected(t);
      for (let at = 1; at < most; at += 1) owed.add(request(head));
      assert.equal(owed.full, false);
      owed.add(request(head));
      assert.equal(owed.full, true);
      owed.dropNewest();
      assert.equal(owed.full, false);
    }
  });

  it('leave in the order of the requests, each behind those before it', async (t) => {
    const { owed, client, request } = await connected(t);
    const [first, second, third] = [request(EVENT), request(LOOKUP), request(EVENT)];
    for (const one of [first, second, third]) owed.add(one);
    second.answer = 'second ';
    third.answer = 'third';
    owed.write();
    assert.equal(owed.oldest, first);
    first.answer = 'first ';
    owed.write();
    assert.equal(await received(client, 18), 'first second third');
    assert.equal(owed.any, false);
  });

  it('end with the one that closes', async (t) => {
    const { owed, client, request } = await connected(t);
    const [first, second] = [request(EVENT), request(EVENT)];
    for (const one of [first, second]) owed.add(one);
    first.answer = 'first';
    first.closes = true;
    second.answer = 'second';
    const ended = once(client, 'end');
    owed.write();
    assert.equal(await received(client, 5), 'first');
    await ended;
    assert.equal(owed.any, false);
  });

  it('wait while the client takes none, and make the connection full, however few they are', async (t) => {
    const { owed, client, request } = await connected(t);
    client.pause();
    const count = 400;
    for (let at = 0; at < count; at += 1) {
      const one = request(EVENT);
      one.answer = 'x'.repeat(65_536);
      owed.add(one);
    }
    owed.write();
    assert.equal(owed.any, true);
    for (let left = 200; left > 0; left -= 1) owed.dropNewest();
    assert.equal(owed.full, true);
  });
});
