// What the certificates and revocation lists say that development and tests are made with.
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { CertificateAuthority, type Issued } from '../../lib/identity/certificate-authority.ts';
import { SYSTEM } from '../support/system.ts';

const DAY_MS = 86_400_000;
const [SERVER_AUTH, CLIENT_AUTH] = ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'];
const { digitalSignature, keyCertSign, cRLSign } = x509.KeyUsageFlags;
const startedMs = Date.now();
const root = await CertificateAuthority.create(SYSTEM, 'root');
const parsed = ({ certificate }: { readonly certificate: string }): X509Certificate => new X509Certificate(certificate);

/** A time is so many days from now, give or take the test's own. */
function inDays(time: Date, days: number): void {
  const off = time.getTime() - startedMs - days * DAY_MS;
  assert.ok(off > -1_000 && off < 600_000, `${time.toISOString()} is not ${days} days from now`);
}

/** What a certificate may be used for: whether it is an authority, and the usages of its key, all of them critical. */
function rightsOf({ certificate }: { readonly certificate: string }): readonly [authority: boolean, usages: number] {
  const { extensions } = new x509.X509Certificate(certificate);
  const constraints = extensions.find((one) => one instanceof x509.BasicConstraintsExtension);
  const usages = extensions.find((one) => one instanceof x509.KeyUsagesExtension);
  assert.ok(constraints?.critical === true && usages?.critical === true);
  assert.equal(constraints.pathLength, undefined);
  return [constraints.ca, usages.usages];
}

const keyIdentifiers = (pem: string): readonly (string | undefined)[] => {
  const { extensions } = new x509.X509Certificate(pem);
  return [
    extensions.find((one) => one instanceof x509.SubjectKeyIdentifierExtension)?.keyId,
    extensions.find((one) => one instanceof x509.AuthorityKeyIdentifierExtension)?.keyId,
  ];
};

describe('an authority', () => {
  it('is a root that signed itself, good from yesterday for ten years or as long as is asked', async () => {
    const certificate = parsed(root);
    assert.deepEqual([certificate.subject, certificate.issuer, certificate.ca], ['CN=root', 'CN=root', true]);
    assert.ok(certificate.verify(certificate.publicKey));
    inDays(certificate.validFromDate, -1);
    inDays(certificate.validToDate, 3650);
    inDays(parsed(await CertificateAuthority.create(SYSTEM, 'short', 2)).validToDate, 2);
    assert.deepEqual(rightsOf(root), [true, keyCertSign | cRLSign]);
  });

  it('makes another one below it, which issues in its own name', async () => {
    const below = await root.intermediate('below');
    const leaf = await below.issue({ commonName: 'leaf' });
    assert.deepEqual(
      [parsed(below).subject, parsed(below).issuer, parsed(leaf).issuer],
      ['CN=below', 'CN=root', 'CN=below'],
    );
    assert.ok(parsed(below).verify(parsed(root).publicKey) && parsed(leaf).verify(parsed(below).publicKey));
    assert.deepEqual(rightsOf(below), [true, keyCertSign | cRLSign]);
    const [rootKey] = keyIdentifiers(root.certificate);
    const [belowKey, above] = keyIdentifiers(below.certificate);
    const [, issuer] = keyIdentifiers(leaf.certificate);
    assert.ok(rootKey !== undefined && belowKey !== undefined);
    assert.deepEqual([above, issuer], [rootKey, belowKey]);
  });

  it('is the same one when it is loaded from its files', async () => {
    const loaded = await CertificateAuthority.load(SYSTEM, root.certificate, await root.key());
    const leaf = await loaded.issue({ commonName: 'leaf' });
    assert.ok(parsed(leaf).verify(parsed(root).publicKey));
    assert.equal(parsed(leaf).issuer, 'CN=root');
    assert.deepEqual([loaded.certificate.trim(), await loaded.key()], [root.certificate.trim(), await root.key()]);
    assert.equal(keyIdentifiers(leaf.certificate)[1], keyIdentifiers(root.certificate)[0]);
  });
});

describe('an issued certificate', () => {
  it("is a client's, good from yesterday for a year, unless something else is asked", async () => {
    const leaf = await root.issue({ commonName: 'leaf' });
    const certificate = parsed(leaf);
    assert.deepEqual([certificate.subject, certificate.ca, certificate.subjectAltName], ['CN=leaf', false, undefined]);
    assert.deepEqual(certificate.keyUsage, [CLIENT_AUTH]);
    assert.deepEqual(rightsOf(leaf), [false, digitalSignature]);
    inDays(certificate.validFromDate, -1);
    inDays(certificate.validToDate, 365);
    const [notBefore, notAfter] = [new Date(1_700_000_000_000), new Date(1_800_000_000_000)];
    const asked = parsed(await root.issue({ commonName: 'leaf', notBefore, notAfter }));
    assert.deepEqual([asked.validFromDate, asked.validToDate], [notBefore, notAfter]);
  });

  it('is for the side of a connection that is asked for, or both', async () => {
    for (const [options, usages] of [
      [{ server: true }, [SERVER_AUTH]],
      [{ server: true, client: true }, [SERVER_AUTH, CLIENT_AUTH]],
      [{ server: false }, [CLIENT_AUTH]],
      [{ client: true }, [CLIENT_AUTH]],
    ] as const)
      assert.deepEqual(parsed(await root.issue({ commonName: 'leaf', ...options })).keyUsage, usages);
  });

  it('carries names of every kind, URIs first', async () => {
    const leaf = await root.issue({
      commonName: 'leaf',
      addresses: ['127.0.0.1', '::1'],
      dnsNames: ['a.test', 'b.test'],
      uris: ['urn:a', 'urn:b'],
    });
    assert.equal(
      parsed(leaf).subjectAltName,
      'URI:urn:a, URI:urn:b, DNS:a.test, DNS:b.test, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1',
    );
  });

  it('has its key as PEM in lines of 64 characters, and a serial number of 16 bytes that is positive', async () => {
    const leaves = await Promise.all(Array.from({ length: 20 }, () => root.issue({ commonName: 'leaf' })));
    for (const leaf of leaves) {
      assert.match(
        leaf.key,
        /^-----BEGIN PRIVATE KEY-----\n(?:[A-Za-z0-9+/]{64}\n)+[A-Za-z0-9+/]{1,64}={0,2}\n-----END PRIVATE KEY-----\n$/,
      );
      assert.ok(parsed(leaf).checkPrivateKey(createPrivateKey(leaf.key)));
      assert.match(leaf.certificate, /^-----BEGIN CERTIFICATE-----\n[^]+\n-----END CERTIFICATE-----\n$/);
      assert.match(leaf.serial, /^[4-7][0-9a-f]{31}$/);
      assert.equal(parsed(leaf).serialNumber, leaf.serial.toUpperCase());
    }
    assert.equal(new Set(leaves.map(({ serial }: Issued) => serial)).size, leaves.length);
    assert.ok(
      new Set(leaves.map(({ serial }: Issued) => serial.slice(0, 2))).size > 1,
      'random from the first byte on',
    );
  });
});

describe('a revocation list', () => {
  it('names the serials, is due again in thirty days or when it is asked, and has the label that OpenSSL reads', async () => {
    const text = await root.revocationList(['4a01', '4b02']);
    assert.match(text, /^-----BEGIN X509 CRL-----\n[^]+\n-----END X509 CRL-----\n$/);
    const list = new x509.X509Crl(text);
    assert.deepEqual(
      list.entries.map(({ serialNumber }) => serialNumber),
      ['4a01', '4b02'],
    );
    assert.equal(list.issuer, 'CN=root');
    assert.ok(await list.verify({ publicKey: new x509.X509Certificate(root.certificate) }));
    inDays(list.thisUpdate, -1);
    assert.ok(list.nextUpdate !== undefined);
    inDays(list.nextUpdate, 30);
    const due = new Date(1_900_000_000_000);
    assert.deepEqual(new x509.X509Crl(await root.revocationList([], { nextUpdate: due })).nextUpdate, due);
  });
});
