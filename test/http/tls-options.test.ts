import assert from 'node:assert/strict';
import type { TLSSocket } from 'node:tls';
import { describe, it } from 'node:test';
import { clientCertificateOf } from '../../lib/http/client-certificate.ts';
import { socketBelow } from '../../lib/http/tls-options.ts';
import { CERTIFICATE } from '../support/connected.ts';
import { MemorySocket } from '../support/memory-socket.ts';

describe('a TLS connection', () => {
  it('has a TCP connection, or is refused', () => {
    const [above, below] = [new MemorySocket(), new MemorySocket()];
    assert.throws(() => socketBelow(above.asTls), /a TLS connection without a TCP connection below it/);
    assert.equal(socketBelow(Object.assign(above, { _parent: below }).asTls), below as unknown);
  });

  it('has the certificate of its client, and the reason why OpenSSL rejected it', () => {
    const of = (more: Partial<TLSSocket>) => clientCertificateOf(Object.assign(new MemorySocket(), more).asTls);
    const certificate = CERTIFICATE;
    assert.equal(of({}), undefined);
    assert.deepEqual(of({ certificate, authorized: true } as object), { certificate, fault: undefined });
    for (const authorizationError of ['CERT_HAS_EXPIRED', new Error('CERT_HAS_EXPIRED')])
      assert.deepEqual(of({ certificate, authorizationError } as object), { certificate, fault: 'CERT_HAS_EXPIRED' });
  });
});
