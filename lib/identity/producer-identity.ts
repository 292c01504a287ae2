// The identity of a producer: its name and audience in a trusted client certificate.
import type { X509Certificate } from 'node:crypto';
import type { ClientCertificate } from '../http/client-certificate.ts';
import type { ClientTrust } from './client-trust.ts';

/** The URI name of a certificate for this audience. */
export const audienceUri = (audience: string): string => `${AUDIENCE_PREFIX}${audience}`;
const AUDIENCE_PREFIX = 'urn:ingest:aud:';

/** `untilMs`: the Unix time at which the verdict ends. `detail` is sent to the producer. */
export type Verdict =
  | { readonly kind: 'producer'; readonly producer: string; readonly untilMs: number }
  | { readonly kind: 'unauthenticated'; readonly detail: string; readonly untilMs: number }
  | { readonly kind: 'audienceMissing'; readonly producer: string; readonly detail: string; readonly untilMs: number }
  /** The verdict is not known now, because a key server does not answer. */
  | { readonly kind: 'unknown'; readonly detail: string; readonly untilMs: number };

export const producerOf = (verdict: Verdict): string | undefined =>
  'producer' in verdict ? verdict.producer : undefined;

/** A trusted certificate and its names. */
export interface ClientIdentity {
  readonly certificate: X509Certificate;
  readonly producer: string;
  readonly uris: readonly string[];
  readonly untilMs: number;
}

/** The maximum for SPIFFE ids (SPIFFE-ID, section 2.3). The name is stored with each event. */
const NAME_BYTES_MAX = 2_048;

const NEVER = Number.POSITIVE_INFINITY;

export const unauthenticated = (detail: string, untilMs = NEVER): Verdict => ({
  kind: 'unauthenticated',
  detail,
  untilMs,
});

/** The client's identity, or the verdict that refuses it. `accepted` is the trust material of its handshake. */
export function clientIdentity(
  client: ClientCertificate | undefined,
  trust: ClientTrust,
  accepted: ClientTrust,
  nowMs: number,
): ClientIdentity | Verdict {
  if (client === undefined) return unauthenticated('a client certificate is required');
  const { certificate, fault } = client;
  if (fault !== undefined) return unauthenticated(`the client certificate is not accepted (${fault})`);
  // Fact: when a session is resumed an hour later, OpenSSL repeats the verdict of its first handshake. Choice: check
  // here everything that time and reloads can change.
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

/** The verdict on a trusted producer without the audience. */
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
 * Parses Node's text of subject alternative names, `kind:value` joined by `, `. Node writes an ambiguous value as a
 * JSON string, so a name cannot add another name.
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
 * The first URI name that is not an audience, else the first DNS name, else the common name. DNS names are not case
 * sensitive (RFC 4343), so they are lowercased. A DNS name or common name with a colon or a slash is refused, because
 * it could equal the URI name of another producer, with that producer's rights and ids.
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
