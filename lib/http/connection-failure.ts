// Why a connection failed or was closed.
const TLS_FAILURES = ['timeout', 'reset', 'protocol', 'cipher', 'certificate', 'not_tls', 'other'] as const;
export const HANDSHAKE_FAILURES = [...TLS_FAILURES, 'limit', 'handshake_size', 'proxy_source', 'proxy_header'] as const;
export type ConnectionFailure = (typeof HANDSHAKE_FAILURES)[number];

export function handshakeReason({ code = '' }: NodeJS.ErrnoException): ConnectionFailure {
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'timeout';
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'reset';
  if (code === 'ERR_SSL_HTTP_REQUEST' || code === 'ERR_SSL_WRONG_VERSION_NUMBER') return 'not_tls';
  if (/PROTOCOL|VERSION/.test(code)) return 'protocol';
  if (code.includes('CIPHER')) return 'cipher';
  return /CERT|UNKNOWN_CA/.test(code) ? 'certificate' : 'other';
}
