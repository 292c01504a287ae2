// Who a producer is, by its client certificate: name, audience, and whether we trust it.
//
// The verdict is made once for each connection and kept there, so a request compares a time and reads a field. It ends
// when the certificate, one above it or a revocation list expires, or the trust material changes.
import type { X509Certificate } from 'node:crypto';
import type { ClientCertificate } from '../http/client-certificate.ts';
import type { ClientTrust } from './client-trust.ts';

/** The URI name that carries the audience claim. */
export const audienceUri = (audience: string): string => `${AUDIENCE_PREFIX}${audience}`;
const AUDIENCE_PREFIX = 'urn:ingest:aud:';

/** `untilMs`: Unix time at which the verdict has to be made again. `detail` is public. */
export type Verdict =
  | { readonly kind: 'producer'; readonly producer: string; readonly untilMs: number }
  | { readonly kind: 'unauthenticated'; readonly detail: string; readonly untilMs: number }
  | { readonly kind: 'audienceMissing'; readonly producer: string; readonly detail: string; readonly untilMs: number }
  /** It could not be found out now (a key server does not answer); asking again may help. */
  | { readonly kind: 'unknown'; readonly detail: string; readonly untilMs: number };

/** Undefined where it is not known. */
export const producerOf = (verdict: Verdict): string | undefined =>
  'producer' in verdict ? verdict.producer : undefined;

/** A certificate that is trusted, with the names in it. */
export interface ClientIdentity {
  readonly certificate: X509Certificate;
  readonly producer: string;
  readonly uris: readonly string[];
  readonly untilMs: number;
}

/**
 * What a SPIFFE id may have at most (SPIFFE-ID, section 2.3). DNS and common names are shorter. It is stored with each
 * event.
 */
const NAME_BYTES_MAX = 2_048;

const NEVER = Number.POSITIVE_INFINITY;

export const unauthenticated = (detail: string, untilMs = NEVER): Verdict => ({
  kind: 'unauthenticated',
  detail,
  untilMs,
});

/** The identity of a connection's client, or the verdict that refuses it. `accepted`: the trust of its handshake. */
export function clientIdentity(
  client: ClientCertificate | undefined,
  trust: ClientTrust,
  accepted: ClientTrust,
  nowMs: number,
): ClientIdentity | Verdict {
  if (client === undefined) return unauthenticated('a client certificate is required');
  const { certificate, fault } = client;
  if (fault !== undefined) return unauthenticated(`the client certificate is not accepted (${fault})`);
  // Fact: OpenSSL repeats the verdict on the first handshake of a session when that session is resumed an hour later.
  // So everything that time and reloads can change is checked here too.
  const kept = trust === accepted || trust.keeps(certificate, accepted, nowMs);
  const verdict = trust.judge(certificate, nowMs);
  if (!verdict.trusted) return unauthenticated(`the client certificate is not accepted (${verdict.why})`);
  if (!kept) return unauthenticated('the accepted authorities have changed since the handshake: connect again');
  const names = alternativeNames(certificate.subjectAltName ?? '');
  const producer = producerName(names, certificate);
  if (producer === undefined) return unauthenticated('the client certificate names no producer');
  if (Buffer.byteLength(producer) > NAME_BYTES_MAX)
    return unauthenticated(`the client certificate's name for the producer is longer than ${NAME_BYTES_MAX} bytes`);
  return { certificate, producer, uris: names.uris, untilMs: verdict.untilMs };
}

/** The verdict on a trusted producer without the audience; it says where an audience may come from. */
export const audienceMissing = (producer: string, audience: string, untilMs: number): Verdict => ({
  kind: 'audienceMissing',
  producer,
  detail:
    `the audience ${audience} is missing: expected the URI name ${audienceUri(audience)} in the client certificate, ` +
    `or a bearer token with it in aud, or a row of the operator's producers file that grants it`,
  untilMs,
});

interface AlternativeNames {
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
}

/**
 * Reads node's text form of the subject alternative names: `kind:value` joined by `, `. A value with characters that
 * could be mistaken for the form's own is a JSON string there, so a name cannot smuggle in another.
 */
export function alternativeNames(text: string): AlternativeNames {
  const uris: string[] = [];
  const dnsNames: string[] = [];
  const entry = /(?:^|, )([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?=, |$)/y;
  while (entry.lastIndex < text.length) {
    const match = entry.exec(text);
    if (match === null) break;
    const [, kind, value = ''] = match;
    if (kind !== 'URI' && kind !== 'DNS') continue;
    (kind === 'URI' ? uris : dnsNames).push(value.startsWith('"') ? String(JSON.parse(value)) : value);
  }
  return { uris, dnsNames };
}

/**
 * The first URI name that is not an audience, else the first DNS name, else the common name. DNS names are compared
 * without case (RFC 4343), so lower case makes them one producer. A DNS name or a common name with a colon or a slash
 * names no producer: it could read like the URI name of another one, with its rights and ids.
 */
function producerName(names: AlternativeNames, certificate: X509Certificate): string | undefined {
  const uri = names.uris.find((one) => !one.startsWith(AUDIENCE_PREFIX));
  if (uri !== undefined && uri !== '') return uri;
  const [host] = names.dnsNames;
  if (host !== undefined && host !== '') return isLikeUri(host) ? undefined : host.toLowerCase();
  const common: unknown = certificate.toLegacyObject().subject?.CN;
  const first: unknown = Array.isArray(common) ? common[0] : common;
  return typeof first === 'string' && first !== '' && !isLikeUri(first) ? first : undefined;
}

const isLikeUri = (name: string): boolean => /[:/]/.test(name);
