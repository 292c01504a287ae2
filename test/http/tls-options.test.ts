// What every TLS server offers. Real handshakes with it are in test/end-to-end.
import assert from 'node:assert/strict';
import { constants } from 'node:crypto';
import { getCiphers, type TLSSocket } from 'node:tls';
import { describe, it } from 'node:test';
import { clientCertificateOf } from '../../lib/http/client-certificate.ts';
import { socketBelow, TLS_OPTIONS } from '../../lib/http/tls-options.ts';
import { CERTIFICATE } from '../support/connected.ts';
import { MemorySocket } from '../support/memory-socket.ts';

describe('the TLS options', () => {
  it('name suites that OpenSSL knows, each with forward secrecy and authenticated encryption', () => {
    const known = new Set(getCiphers());
    const suites = TLS_OPTIONS.ciphers.split(':');
    for (const suite of suites) {
      assert.ok(known.has(suite.toLowerCase()), suite);
      assert.match(suite, /^(?:TLS_|ECDHE-).*(?:GCM|CHACHA20)/);
    }
    assert.equal(new Set(suites).size, suites.length);
  });

  it('allow no renegotiation and nothing older than TLS 1.2', () => {
    assert.equal(TLS_OPTIONS.secureOptions & constants.SSL_OP_NO_RENEGOTIATION, constants.SSL_OP_NO_RENEGOTIATION);
    assert.equal(TLS_OPTIONS.minVersion, 'TLSv1.2');
  });
});

describe('a TLS connection', () => {
  it('has the TCP connection below it, or is taken by nobody', () => {
    const [above, below] = [new MemorySocket(), new MemorySocket()];
    assert.throws(() => socketBelow(above.asTls), /a TLS connection without a TCP connection below it/);
    assert.equal(socketBelow(Object.assign(above, { _parent: below }).asTls), below as unknown);
  });

  it('has the certificate that its client showed, and why OpenSSL did not accept it', () => {
    const of = (more: Partial<TLSSocket>) => clientCertificateOf(Object.assign(new MemorySocket(), more).asTls);
    const certificate = CERTIFICATE;
    assert.equal(of({}), undefined);
    assert.deepEqual(of({ certificate, authorized: true } as object), { certificate, fault: undefined });
    for (const authorizationError of ['CERT_HAS_EXPIRED', new Error('CERT_HAS_EXPIRED')])
      assert.deepEqual(of({ certificate, authorizationError } as object), { certificate, fault: 'CERT_HAS_EXPIRED' });
  });
});
