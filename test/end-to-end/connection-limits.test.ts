// The short form of connection-limits.long.ts, which has the floods.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway, type RawConnection } from '../support/gateway.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';
import { attacker, describeUnread, itStandsStrangers, pki, producer, redis } from './connection-limits.ts';

describeUnread('GET');

describe('strangers that hold every connection, and come again as they are cut', () => {
  itStandsStrangers('20', ['silent', 'nameless']);

  it(
    'are as many from one address as a quarter of all connections, unless that is set',
    { tags: ['long'] },
    async () => {
      const gateway = await TestGateway.start(redis, pki, {
        ...PATIENT,
        INGEST_CONNECTIONS_MAX: '40',
        INGEST_HANDSHAKE_TIMEOUT_MS: '120000',
        INGEST_HEADERS_TIMEOUT_MS: '120000',
        INGEST_REQUEST_TIMEOUT_MS: '120000',
      });
      const strangers: RawConnection[] = [];
      for (let at = 0; at < 11; at += 1) strangers.push(await gateway.socket());
      await eventually('one is cut', () => strangers.filter(({ closed }) => closed).length === 1);
      const known = await gateway.socket(producer);
      assert.equal((await askRaw(known, postText(event('a-quarter')))).status, 202);

      for (const { socket } of strangers) socket.destroy();
      await eventually('they are gone', async () =>
        /^ingest_connections 1$/m.test((await askRaw(known, requestText('GET /metrics'))).body),
      );
      const silent = Array.from({ length: 11 }, () => connect(gateway.port, '127.0.0.1'));
      atEnd(() => silent.forEach((socket) => socket.destroy()));
      for (const socket of silent) socket.on('error', () => undefined).resume();
      await eventually('one is cut that never begins a handshake', () => silent.some(({ closed }) => closed));
      assert.equal((await askRaw(known, postText(event('a-quarter-still')))).status, 202);
      assert.equal(silent.filter(({ closed }) => closed).length, 1);
    },
  );
});

describe('where one producer holds all connections that there may be', () => {
  it('it gives way to another, and /health/live still gets in', async () => {
    const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_CONNECTIONS_MAX: '20' });
    const greedy: RawConnection[] = [];
    for (let at = 0; at < 20; at += 1) {
      const connection = await gateway.socket(attacker);
      greedy.push(connection);
      assert.equal((await askRaw(connection, postText(event(`greedy-${at}`)))).status, 202);
    }
    for (let at = 0; at < 5; at += 1) {
      const other = await gateway.socket(producer);
      assert.equal((await askRaw(other, postText(event(`other-${at}`)))).status, 202);
      const nobody = await gateway.socket();
      assert.equal((await askRaw(nobody, requestText('GET /health/live'))).status, 200);
      nobody.socket.destroy();
    }
    await eventually('one of its connections went for each', () => greedy.filter(({ closed }) => closed).length >= 6);
    const left = greedy.filter(({ closed }) => !closed);
    assert.equal(left.length, 14);
    for (const [at, connection] of left.entries())
      assert.equal((await askRaw(connection, postText(event(`greedy-again-${at}`)))).status, 202);
    assert.ok((await gateway.metric('ingest_tls_handshake_failures_total', { reason: 'limit' })) >= 6);
  });
});

it('TLS 1.2 is offered with forward secrecy and authenticated encryption only', async () => {
  const gateway = await TestGateway.start(redis, pki, PATIENT);
  const v12 = { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;
  for (const ciphers of [
    'AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256',
    'DHE-RSA-AES128-GCM-SHA256',
  ])
    await assert.rejects(gateway.socket(producer, { ...v12, ciphers }), ciphers);
  const modern = await gateway.socket(producer, { ...v12, ciphers: 'ECDHE+AESGCM:ECDHE+CHACHA20' });
  assert.equal((await askRaw(modern, postText(event('modern')))).status, 202);
});
