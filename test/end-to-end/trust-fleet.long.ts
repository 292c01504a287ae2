import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { event, TestGateway, type RawConnection } from '../support/gateway.ts';
import { AUDIENCE_URI, Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postText, repliesIn } from '../support/wire.ts';

const CONNECTIONS = 2_000;
const REVOKED = 50;

/** A client that sends its next event as soon as the previous one is answered. */
class Sender {
  readonly #connection: RawConnection;
  readonly #name: string;
  #sent = 0;

  constructor(connection: RawConnection, name: string) {
    this.#connection = connection;
    this.#name = name;
    connection.socket.on('data', () => this.#next());
    this.#next();
  }

  get closed(): boolean {
    return this.#connection.closed;
  }

  get answered(): number {
    return repliesIn(this.#connection.received).length;
  }

  get idle(): boolean {
    return this.answered === this.#sent;
  }

  get accepted(): string[] {
    const { received } = this.#connection;
    const found = repliesIn(received);
    assert.equal(found.length, received.split('HTTP/1.1 ').length - 1, `a whole answer: ${received.slice(-300)}`);
    assert.ok(found.every(({ status }) => status === 202));
    assert.ok(found.length >= this.#sent - 1);
    return found.map((_, at) => `${this.#name}-${at}`);
  }

  #next(): void {
    if (!this.idle || this.closed) return;
    this.#connection.write(postText(event(`${this.#name}-${this.#sent}`)));
    this.#sent += 1;
  }
}

describe('trust that changes under 2,000 connections', () => {
  it('closes only revoked connections for a new list and all for a new authority, and cuts off no answer', async () => {
    const redis = await TestRedis.start();
    const pki = await Pki.create();
    const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
    const gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: crl, INGEST_IN_FLIGHT_MAX: '5000' });
    const [stays, leaves] = await Promise.all([pki.producer('stays'), pki.producer('leaves')]);
    const open = async (certificate: ClientCertificate, name: string): Promise<Sender> =>
      new Sender(await gateway.socket(certificate), name);
    const staying: Sender[] = [];
    while (staying.length < CONNECTIONS - REVOKED) {
      const names = Array.from({ length: 50 }, (_, at) => `stays-${staying.length + at}`);
      staying.push(...(await Promise.all(names.map((name) => open(stays, name)))));
    }
    const revoked = await Promise.all(Array.from({ length: REVOKED }, (_, at) => open(leaves, `leaves-${at}`)));
    const all = [...staying, ...revoked];
    const goOn = async (): Promise<void> => {
      const before = new Map(all.map((one) => [one, one.answered]));
      await eventually('each is answered', () =>
        all.every((one) => one.closed || one.answered > (before.get(one) ?? 0)),
      );
    };
    const reloads = async (count: number): Promise<void> =>
      eventually(`${count} reloads`, async () => (await gateway.metric('ingest_reloads_total')) >= count).then(
        () => undefined,
      );
    await goOn();

    pki.write('crl.pem', await pki.authority.revocationList([leaves.serial]));
    await reloads(1);
    pki.write('crl.pem', await pki.authority.revocationList([leaves.serial], { nextUpdate: tomorrow() }));
    await reloads(2);
    await eventually('the revoked are closed', () => revoked.every(({ closed }) => closed));
    await goOn();
    assert.equal(staying.filter(({ closed }) => closed).length, 0);

    const second = new CertificateAuthority('second authority');
    const other = await second.issue({ commonName: 'other', uris: ['urn:test:producer:other', AUDIENCE_URI] });
    pki.write('crl.pem', await second.revocationList([]));
    pki.write('ca.pem', second.certificate);
    await eventually('all are closed', () => all.every(({ closed }) => closed));
    const certificate = { cert: other.certificate, key: other.key, serial: other.serial };
    assert.equal((await gateway.client(certificate).post(event('other'))).status, 202);

    const queued = new Set(
      (await redis.entries()).map(({ fields }) => /"id":"([^"]+)"/.exec(fields['body'] ?? '')?.[1]),
    );
    const accepted = all.flatMap((one) => one.accepted);
    assert.ok(accepted.length >= 3 * staying.length);
    assert.deepEqual(
      accepted.filter((id) => !queued.has(id)),
      [],
    );
  });
});

const tomorrow = (): Date => new Date(Date.now() + 86_400_000);
