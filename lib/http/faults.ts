// Classifies node's handshake errors and parser errors.
import type { ProtocolFault } from './request.ts';

export const HANDSHAKE_FAILURES = [
  'timeout',
  'reset',
  'protocol',
  'cipher',
  'certificate',
  'not_tls',
  'limit',
  'proxy_source',
  'proxy_header',
  'other',
] as const;

export function faultOf({ code }: NodeJS.ErrnoException): ProtocolFault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'timeout';
  return code === 'HPE_HEADER_OVERFLOW' ? 'headersTooLarge' : 'malformed';
}

export function handshakeReason(error: NodeJS.ErrnoException): (typeof HANDSHAKE_FAILURES)[number] {
  const code = error.code ?? '';
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'timeout';
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'reset';
  if (code === 'ERR_SSL_HTTP_REQUEST' || code === 'ERR_SSL_WRONG_VERSION_NUMBER') return 'not_tls';
  if (/PROTOCOL|VERSION/.test(code)) return 'protocol';
  if (/CIPHER/.test(code)) return 'cipher';
  return /CERT|UNKNOWN_CA/.test(code) ? 'certificate' : 'other';
}
