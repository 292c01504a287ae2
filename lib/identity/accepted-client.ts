// Whether the client of a TLS connection is one of those that are named: for programs that know their clients by name.
import type { TLSSocket } from 'node:tls';
import type { ClientTrust } from './client-trust.ts';
import { alternativeNames } from './producer-identity.ts';

/**
 * Why the client is not accepted, in words that it may see; undefined when it is. It must be trusted now, and one of
 * its URI names, DNS names or common names must be among `names`. Trust rests on the authorities' file alone, so that
 * it can be asked again at any time: intermediates belong into that file.
 */
export function clientRefusal(
  socket: TLSSocket,
  trust: ClientTrust,
  names: readonly string[],
  nowMs: number,
): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return 'a client certificate is required';
  if (!socket.authorized) return `the client certificate is not accepted (${String(socket.authorizationError)})`;
  const verdict = trust.judge(certificate, false, nowMs);
  if (!verdict.trusted) return `the client certificate is not accepted (${verdict.why})`;
  const { uris, dnsNames } = alternativeNames(certificate.subjectAltName ?? '');
  const common: unknown = certificate.toLegacyObject().subject?.CN;
  const found = [...uris, ...dnsNames, ...[common].flat().filter((name) => typeof name === 'string')];
  if (found.some((name) => names.includes(name))) return undefined;
  return `no name in the client certificate is in INGEST_DISPATCH_CLIENTS (${found.join(', ')})`;
}
