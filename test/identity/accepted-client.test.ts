// Which clients are admitted by name: those whose handshake passed, whose certificate is trusted now, and who are
// named.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { clientRefusal } from '../../lib/identity/accepted-client.ts';
import { CertificateAuthority, type IssueOptions } from '../../lib/identity/certificate-authority.ts';
import { ClientTrust } from '../../lib/identity/client-trust.ts';
import { certificateWithoutSubject } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

const root = await CertificateAuthority.create(SYSTEM, 'root');
const other = await CertificateAuthority.create(SYSTEM, 'other');
const department = await root.intermediate('department');
const trust = new ClientTrust([new X509Certificate(root.certificate)], []);

/** What is asked of a connection, as TLSSocket has it. */
async function socketOf(
  options: Partial<IssueOptions> | undefined,
  { by = root, fault }: { by?: CertificateAuthority; fault?: string } = {},
): Promise<TLSSocket> {
  const issued = options && (await by.issue({ commonName: 'common', ...options }));
  return {
    getPeerX509Certificate: () => issued && new X509Certificate(issued.certificate),
    authorized: fault === undefined,
    authorizationError: fault,
  } as unknown as TLSSocket;
}

describe('a client is admitted', () => {
  const both = { uris: ['urn:a', 'urn:b'], dnsNames: ['one.test', 'two.test'] };
  for (const [name, options, names] of [
    ['by its first URI', both, ['urn:a']],
    ['by another URI', both, ['x', 'urn:b']],
    ['by a DNS name', both, ['two.test']],
    ['by its common name, beside other names', both, ['common']],
    ['by its common name alone', {}, ['common']],
  ] as const)
    it(name, async () =>
      assert.equal(clientRefusal(await socketOf(options), trust, names, SYSTEM.clock.epochMs()), undefined),
    );
});

describe('a client is refused, in words that it may see,', () => {
  it('without a certificate', async () =>
    assert.equal(
      clientRefusal(await socketOf(undefined), trust, ['common'], SYSTEM.clock.epochMs()),
      'a client certificate is required',
    ));

  it('where the handshake found its certificate wrong, whatever is found now', async () =>
    assert.equal(
      clientRefusal(await socketOf({}, { fault: 'CERT_REVOKED' }), trust, ['common'], SYSTEM.clock.epochMs()),
      'the client certificate is not accepted (CERT_REVOKED)',
    ));

  it('where its certificate is not trusted now, whatever the handshake found', async () => {
    const notAfter = new Date(Math.ceil(Date.now() / 1000) * 1000 + 60_000);
    const ends = await socketOf({ notAfter });
    assert.equal(clientRefusal(ends, trust, ['common'], notAfter.getTime() - 1), undefined);
    assert.equal(
      clientRefusal(ends, trust, ['common'], notAfter.getTime()),
      'the client certificate is not accepted (expired)',
    );
    for (const by of [other, department])
      assert.equal(
        clientRefusal(await socketOf({}, { by }), trust, ['common'], SYSTEM.clock.epochMs()),
        'the client certificate is not accepted (unknown_authority)',
      );
  });

  it('where none of its names is admitted, which are told', async () => {
    const socket = await socketOf({ uris: ['urn:a'], dnsNames: ['one.test'] });
    for (const names of [[], ['urn:A', 'urn:a ', 'one', 'Common', '']])
      assert.equal(
        clientRefusal(socket, trust, names, SYSTEM.clock.epochMs()),
        'no name in the client certificate is in INGEST_DISPATCH_CLIENTS (urn:a, one.test, common)',
      );
  });

  it('where its certificate names nobody at all', async () =>
    assert.equal(
      clientRefusal(await socketOf({ commonName: '' }), trust, ['undefined'], SYSTEM.clock.epochMs()),
      'no name in the client certificate is in INGEST_DISPATCH_CLIENTS ()',
    ));

  it('where its certificate has no subject, and no other name that is admitted', async () => {
    const certificate = new X509Certificate(await certificateWithoutSubject(['urn:a']));
    const own = new ClientTrust([certificate], []);
    const socket = { getPeerX509Certificate: () => certificate, authorized: true } as unknown as TLSSocket;
    assert.equal(clientRefusal(socket, own, ['urn:a'], SYSTEM.clock.epochMs()), undefined);
    assert.equal(
      clientRefusal(socket, own, ['urn:b', 'undefined'], SYSTEM.clock.epochMs()),
      'no name in the client certificate is in INGEST_DISPATCH_CLIENTS (urn:a)',
    );
  });
});
