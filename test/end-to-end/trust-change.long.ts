// Files of a gateway's trust that are no good in other ways than in trust-change.test.ts, and a list that becomes overdue.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { addsNothing } from '../support/verdicts.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';
import { change, redis, refusesFiles, startGateway } from './trust-change.ts';

describe('new files that are no good', () => {
  it('are refused, logged and counted, and the last good ones stay', () =>
    refusesFiles([
      ...(['no certificate', 'an empty authorities file', 'an empty list', "a stranger's list"] as const),
      'a list that is overdue',
    ]));
});

describe('a revocation list that becomes overdue', () => {
  it('refuses everyone, says so beforehand in a metric, and a new list lets them in again', async () => {
    const pki = await Pki.create();
    const gateway = await startGateway(pki, {
      INGEST_TLS_CLIENT_CRL: pki.write('crl.pem', await pki.authority.revocationList([])),
    });
    const one = await pki.producer('one');
    const open = await gateway.socket(one);
    // In this time a busy machine takes the list into use, and asks twice.
    const lastsS = 15;
    const due = new Date((Math.ceil(Date.now() / 1000) + lastsS) * 1000);
    const short = await pki.authority.revocationList([], { nextUpdate: due });
    await change(gateway, () => pki.write('crl.pem', short));
    assert.equal((await askRaw(open, postText(event('in-time')))).status, 202);
    const left = await gateway.metric('ingest_tls_certificate_expiry_seconds', { file: 'crl' });
    assert.ok(left <= lastsS + 1 && left >= 0, String(left));
    for (const file of ['cert', 'client_ca']) {
      const seconds = await gateway.metric('ingest_tls_certificate_expiry_seconds', { file });
      assert.ok(seconds > 86_400 * 300, `${file}: ${seconds}`);
    }
    await eventually('the list is overdue', () => Date.now() > due.getTime());
    await addsNothing(redis, async () => {
      assert.equal((await askRaw(open, postText(event('overdue')))).status, 401);
      await eventually(
        'new connections are refused',
        async () => (await gateway.client(one).post(event('overdue'))).status === 401,
      );
    });
    assert.ok((await gateway.metric('ingest_tls_certificate_expiry_seconds', { file: 'crl' })) <= 0);
    assert.equal((await askRaw(open, requestText('GET /health/live'))).status, 200);
    const next = await pki.authority.revocationList([]);
    await change(gateway, () => pki.write('crl.pem', next));
    assert.equal((await gateway.client(one).post(event('again'))).status, 202);
  });
});
