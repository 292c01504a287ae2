import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { faultOf, HANDSHAKE_FAILURES, handshakeReason } from '../../lib/http/faults.ts';

const error = (code?: string): NodeJS.ErrnoException =>
  Object.assign(new Error('x'), code === undefined ? {} : { code });

describe('a handshake that failed', () => {
  for (const [code, reason] of [
    ['ERR_TLS_HANDSHAKE_TIMEOUT', 'timeout'],
    ['ECONNRESET', 'reset'],
    ['EPIPE', 'reset'],
    ['ERR_SSL_HTTP_REQUEST', 'not_tls'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_tls'],
    ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'protocol'],
    ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', 'protocol'],
    ['ERR_SSL_BAD_VERSION', 'protocol'],
    ['ERR_SSL_NO_SHARED_CIPHER', 'cipher'],
    ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED', 'certificate'],
    ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'certificate'],
    ['ERR_SSL_BAD_RECORD_TYPE', 'other'],
    [undefined, 'other'],
  ] as const)
    it(`with ${code ?? 'no code'} is counted under the reason ${reason}`, () => {
      assert.equal(handshakeReason(error(code)), reason);
      assert.ok(HANDSHAKE_FAILURES.includes(reason));
    });
});

describe('an error of the parser of node:http', () => {
  it('means a head over the limit, a late or malformed request, or that the client ended its side in a request', () => {
    assert.equal(faultOf(error('HPE_HEADER_OVERFLOW')), 'headersTooLarge');
    assert.equal(faultOf(error('ERR_HTTP_REQUEST_TIMEOUT')), 'timeout');
    assert.equal(faultOf(error('HPE_INVALID_METHOD')), 'malformed');
    assert.equal(faultOf(error('HPE_INVALID_EOF_STATE')), 'end of input');
  });
});
