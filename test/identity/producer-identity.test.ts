import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { OpenSsl } from '../support/openssl.ts';
import { CertificateAuthority, type IssueOptions } from '../support/certificate-authority.ts';
import { audienceUri, clientIdentity, unauthenticated } from '../../lib/identity/producer-identity.ts';

const AUDIENCE = audienceUri('ingest-gateway');
const authority = new CertificateAuthority('test authority');

async function issued(options: Partial<IssueOptions>): Promise<X509Certificate> {
  return new X509Certificate((await authority.issue({ commonName: 'common', ...options })).certificate);
}

async function identityOf(options: Partial<IssueOptions>) {
  const identity = clientIdentity(await issued(options), Date.now());
  assert.ok(!('kind' in identity), JSON.stringify(identity));
  return identity;
}

it('a name in a certificate cannot add another name', async () => {
  for (const name of [
    'urn:evil, URI:urn:test:producer:victim',
    `urn:evil, URI:${AUDIENCE}`,
    `urn:evil", URI:${AUDIENCE}`,
    `urn:evil\\", URI:${AUDIENCE}`,
    `urn:evil\\\\", URI:${AUDIENCE}`,
    `"urn:evil", URI:${AUDIENCE}, URI:"`,
    `urn:evil\0, URI:${AUDIENCE}`,
    `urn:evil\n, URI:${AUDIENCE}`,
    `${AUDIENCE}\0`,
    `${AUDIENCE} `,
  ]) {
    const { producer, uris } = await identityOf({ uris: ['urn:first', name] });
    assert.deepEqual([producer, uris.length, uris.includes(AUDIENCE)], ['urn:first', 2, false], name);
    for (const other of [{ dnsNames: [name] }, { commonName: `x, URI:${AUDIENCE}` }]) {
      const identity = await identityOf({ uris: ['urn:first'], ...other });
      assert.deepEqual([identity.producer, identity.uris], ['urn:first', ['urn:first']], name);
    }
  }
});

it('the producer is the first URI that is no audience, else the first DNS name, else the common name', async () => {
  const cases: Readonly<Record<string, readonly [options: Partial<IssueOptions>, producer: string]>> = {
    'the first URI': [{ uris: ['urn:b', 'urn:a'], dnsNames: ['c'] }, 'urn:b'],
    'the first URI that is not an audience': [{ uris: [AUDIENCE, 'urn:ingest:aud:other', 'urn:a'] }, 'urn:a'],
    'the first DNS name if there is no other URI': [{ uris: [AUDIENCE], dnsNames: ['b', 'a'] }, 'b'],
    'a DNS name in lower case': [{ uris: [AUDIENCE], dnsNames: ['Shop.EXAMPLE'] }, 'shop.example'],
    'a common name, unchanged': [{ uris: [AUDIENCE], commonName: 'The Shop' }, 'The Shop'],
    'a name of 2,048 bytes': [{ uris: [`urn:${'x'.repeat(2_044)}`] }, `urn:${'x'.repeat(2_044)}`],
    'the common name if there is neither': [{ uris: [AUDIENCE] }, 'common'],
    'the common name if there are no alternative names': [{}, 'common'],
    'the common name if the first DNS name is empty': [{ dnsNames: ['', 'a'] }, 'common'],
    'a URI that ends in a quote': [{ uris: ['urn:a"'] }, 'urn:a"'],
    'a URI, unchanged': [{ uris: ['spiffe://Test/Producer/%41'] }, 'spiffe://Test/Producer/%41'],
  };
  for (const [name, [options, producer]] of Object.entries(cases))
    assert.equal((await identityOf(options)).producer, producer, name);
});

describe('a client is unauthenticated', () => {
  const refused = (certificate: X509Certificate): unknown => clientIdentity(certificate, Date.now());

  it('if its DNS name or common name contains a colon or a slash, or if it has no name or no subject', async () => {
    for (const options of [
      { dnsNames: ['spiffe://example.org/alice'] },
      { dnsNames: ['urn:test:producer:shop', 'shop.test'], uris: [AUDIENCE] },
      { dnsNames: ['a/b'], commonName: 'shop' },
      { commonName: '', uris: [AUDIENCE] },
      { commonName: undefined, uris: [AUDIENCE] },
      ...['spiffe://prod/shop', 'URN:test:producer:shop', 'x y://z', 'a/b', 'a:b'].map((name) => ({
        commonName: name,
      })),
    ])
      assert.deepEqual(refused(await issued(options)), unauthenticated('the client certificate names no producer'));
  });

  it('if its name is longer than 2,048 bytes, and is told the limit', async () => {
    const detail = "the client certificate's name for the producer is longer than 2048 bytes";
    for (const options of [
      { uris: [`urn:${'x'.repeat(2_045)}`, AUDIENCE] },
      { uris: [AUDIENCE], dnsNames: ['x'.repeat(60_000)] },
      { uris: [AUDIENCE], commonName: 'ü'.repeat(1_025) },
    ])
      assert.deepEqual(refused(await issued(options)), unauthenticated(detail));
  });
});

it('the common name is that which OpenSSL reads, and a key on an odd curve ends no process', () => {
  const made = new OpenSsl();
  const mask = (kind: string): string => `[req]\nstring_mask=${kind}\ndistinguished_name=n\n[n]\n`;
  const cases = [
    ['/O=x/CN=first/CN=second', [], 'first'],
    ['/CN=Zoë', ['-utf8'], 'Zoë'],
    ['/CN=Zoë', ['-utf8', '-config', made.write('bmp.cnf', mask('MASK:2048'))], 'Zoë'],
    ['/CN=Zoë', ['-utf8', '-config', made.write('t61.cnf', mask('MASK:4'))], 'Zoë'],
    ['/O=x', [], undefined],
    ['/', [], undefined],
  ] as const;
  for (const [at, [subject, more, name]] of cases.entries())
    for (const curve of ['P-256', 'brainpoolP256r1', 'secp256k1']) {
      const key = ['-newkey', 'ec', '-pkeyopt', `ec_paramgen_curve:${curve}`];
      const certificate = new X509Certificate(made.root(`c${at}-${curve}`, subject, ...more, ...key));
      const identity = clientIdentity(certificate, Date.now());
      assert.equal('producer' in identity ? identity.producer : undefined, name, `${subject} ${curve}`);
      if (curve === 'P-256') assert.equal([certificate.toLegacyObject().subject?.CN].flat()[0], name);
    }
});
