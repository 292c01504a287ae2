// The identity of a producer: the name and audience in its trusted client certificate.
import type { X509Certificate } from 'node:crypto';
import { commonName } from './x509.ts';
import { comparableName } from '../process/producer-name.ts';

export const audienceUri = (audience: string): string => `${AUDIENCE_PREFIX}${audience}`;
const AUDIENCE_PREFIX = 'urn:ingest:aud:';

/**
 * `untilMs` is the Unix time at which the verdict expires. `detail` is sent to the producer. `tokenKeyUnknown`: the key
 * that signed the token may have been published a moment ago. `unknown`: a key server does not answer.
 */
export type Verdict = { readonly untilMs: number } & (
  | { readonly kind: 'producer'; readonly producer: string }
  | { readonly kind: 'audienceMissing'; readonly producer: string; readonly detail: string }
  | { readonly kind: 'unauthenticated' | 'tokenKeyUnknown' | 'unknown'; readonly detail: string }
);

export const producerOf = (verdict: Verdict): string | undefined =>
  'producer' in verdict ? verdict.producer : undefined;

export interface ClientIdentity {
  readonly certificate: X509Certificate;
  readonly producer: string;
  readonly uris: readonly string[];
  readonly untilMs: number;
}

/** The maximum length of a SPIFFE ID (SPIFFE-ID, section 2.3). The name is stored with each event. */
const NAME_BYTES_MAX = 2_048;

export const unauthenticated = (detail: string, untilMs = Number.POSITIVE_INFINITY): Verdict => {
  return { kind: 'unauthenticated', detail, untilMs };
};

/** Returns the identity in a certificate that is trusted until `untilMs`, or the verdict that refuses it. */
export function clientIdentity(certificate: X509Certificate, untilMs: number): ClientIdentity | Verdict {
  const { URI: uris, DNS: hosts } = alternativeNames(certificate);
  const producer = producerName(uris, hosts, certificate);
  if (producer === undefined) return unauthenticated('the client certificate names no producer');
  if (Buffer.byteLength(producer) > NAME_BYTES_MAX)
    return unauthenticated(`the client certificate's name for the producer is longer than ${NAME_BYTES_MAX} bytes`);
  return { certificate, producer, uris, untilMs };
}

export const audienceMissing = (producer: string, audience: string, untilMs: number): Verdict => ({
  kind: 'audienceMissing',
  producer,
  detail:
    `the audience ${audience} is missing: expected the URI name ${audienceUri(audience)} in the client certificate, ` +
    `or a bearer token with it in aud, or a row of the operator's producers file that grants it`,
  untilMs,
});

/** Node joins `kind:value` pairs by `, ` and writes an ambiguous value as JSON, so no name can inject another one. */
export function alternativeNames({ subjectAltName = '' }: Pick<X509Certificate, 'subjectAltName'>) {
  const names: Record<'URI' | 'DNS', string[]> = { URI: [], DNS: [] };
  for (const [, kind, value = ''] of subjectAltName.matchAll(/(?:^|, )([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?=, |$)/gy))
    if (kind === 'URI' || kind === 'DNS') names[kind].push(value.startsWith('"') ? String(JSON.parse(value)) : value);
  return names;
}

/**
 * Returns the first URI name that is not an audience, or else the first DNS name, or else the common name. DNS names
 * are case-insensitive (RFC 4343), so they are lowercased. A DNS name or common name that contains a colon or a slash
 * is refused, because it could equal the URI name of another producer and obtain that producer's rights and ids.
 */
function producerName(uris: readonly string[], [host]: readonly string[], certificate: X509Certificate) {
  const uri = uris.find((one) => !comparableName(one).startsWith(AUDIENCE_PREFIX));
  if (uri) return uri;
  const name = host?.toLowerCase() || commonName(certificate.raw);
  return name && !/[:/]/.test(name) ? name : undefined;
}
