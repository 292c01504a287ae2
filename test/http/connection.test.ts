import assert from 'node:assert/strict';
import { it } from 'node:test';
import { handshakeReason } from '../../lib/http/connection-failure.ts';

const error = (code?: string): NodeJS.ErrnoException =>
  Object.assign(new Error('x'), code === undefined ? {} : { code });

it('a handshake that failed is counted under the reason of its error', () => {
  for (const [code, reason] of [
    ['ERR_TLS_HANDSHAKE_TIMEOUT', 'timeout'],
    ['ECONNRESET', 'reset'],
    ['EPIPE', 'reset'],
    ['ERR_SSL_HTTP_REQUEST', 'not_tls'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_tls'],
    ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'protocol'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'protocol'],
    ['ERR_SSL_NO_SHARED_CIPHER', 'cipher'],
    ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED', 'certificate'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'certificate'],
    ['ERR_SSL_BAD_RECORD_TYPE', 'other'],
    [undefined, 'other'],
  ] as const)
    assert.equal(handshakeReason(error(code)), reason, code ?? 'no code');
});
