import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { handshakeFault } from '../support/handshake.ts';
import { anotherCertificate, type CertificateOptions } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

const { keyCertSign, digitalSignature } = x509.KeyUsageFlags;
const [CLIENT_AUTH, SERVER_AUTH, ANY_USAGE] = ['1.3.6.1.5.5.7.3.2', '1.3.6.1.5.5.7.3.1', '2.5.29.37.0'];
const root = await CertificateAuthority.create(SYSTEM, 'root');
const department = await root.intermediate('department');
const team = await department.intermediate('team');
const client = await CertificateAuthority.create(SYSTEM, 'client');
const server = await root.issue({ commonName: 'localhost', server: true });

function der(tag: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)));
  const length = content.length < 0x80 ? [content.length] : [0x82, content.length >> 8, content.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

const directory = (name: string): Buffer => der(0xa4, Buffer.from(new x509.Name(name).toArrayBuffer()));
const [dns, uri, email, address] = [0x82, 0x86, 0x81, 0x87].map(
  (tag) => (value: Buffer | string) => der(tag, value),
) as [(value: string) => Buffer, (value: string) => Buffer, (value: string) => Buffer, (value: Buffer) => Buffer];
const registered = der(0x88, Buffer.from([0x2a, 0x03]));
const subtrees = (tag: number, names: readonly Buffer[]): Buffer =>
  names.length === 0 ? Buffer.alloc(0) : der(tag, ...names.map((name) => der(0x30, name)));
const extension = (id: string, value: Buffer, critical = true): x509.Extension =>
  new x509.Extension(id, critical, value);
const constraints = (permitted: readonly Buffer[], excluded: readonly Buffer[] = []): x509.Extension =>
  extension('2.5.29.30', der(0x30, subtrees(0xa0, permitted), subtrees(0xa1, excluded)));
const alternatives = (...names: readonly Buffer[]): x509.Extension =>
  extension('2.5.29.17', der(0x30, ...names), false);
const usages = (...ids: readonly string[]): x509.Extension => new x509.ExtendedKeyUsageExtension(ids);

const leaf = (names: readonly Buffer[], more: CertificateOptions = {}): Promise<string> =>
  anotherCertificate(client, {
    name: 'CN=leaf',
    by: root,
    authority: false,
    usages: digitalSignature,
    ...more,
    extensions: [
      ...(names.length === 0 ? [] : [alternatives(...names)]),
      ...(more.extensions ?? [usages(CLIENT_AUTH)]),
    ],
  });

async function assertHandshake(isGood: boolean, certificate: string, authorities: readonly string[]): Promise<void> {
  const fault = await handshakeFault(
    { cert: certificate, key: await client.key() },
    { cert: server.certificate, key: server.key, ca: authorities.join('') },
  );
  assert.equal(fault === undefined, isGood, fault ?? 'accepted');
}

describe('name constraints of an authority', () => {
  const v4 = Buffer.from([10, 1, 2, 3]);
  const net = Buffer.from([10, 1, 0, 0, 255, 255, 0, 0]);
  const otherNet = Buffer.from([10, 2, 0, 0, 255, 255, 0, 0]);
  const cases: readonly (readonly [
    what: string,
    isGood: boolean,
    names: readonly Buffer[],
    x509.Extension,
    string?,
  ])[] = [
    ['permit a DNS name', true, [dns('shop.test')], constraints([dns('shop.test')])],
    ['permit a DNS name below', true, [dns('web.shop.test')], constraints([dns('shop.test')])],
    ['permit a DNS name below one with a dot', true, [dns('web.shop.test')], constraints([dns('.shop.test')])],
    ['do not permit another DNS name', false, [dns('bank.test')], constraints([dns('shop.test')])],
    [
      'require that each DNS name is permitted',
      false,
      [dns('shop.test'), dns('bank.test')],
      constraints([dns('shop.test')]),
    ],
    ['exclude a DNS name', false, [dns('shop.test')], constraints([], [dns('shop.test')])],
    ['exclude a DNS name below', false, [dns('a.b.shop.test')], constraints([], [dns('shop.test')])],
    [
      'exclude a DNS name that is also permitted',
      false,
      [dns('a.shop.test')],
      constraints([dns('shop.test')], [dns('a.shop.test')]),
    ],
    ['permit a certificate without a DNS name', true, [uri('spiffe://shop.test/web')], constraints([dns('bank.test')])],
    ['permit a URI by its host', true, [uri('spiffe://shop.test/web')], constraints([uri('shop.test')])],
    ['permit a URI below', true, [uri('spiffe://eu.shop.test/web')], constraints([uri('.shop.test')])],
    ['do not permit a URI below a host', false, [uri('spiffe://eu.shop.test/web')], constraints([uri('shop.test')])],
    ['do not permit the host of a domain', false, [uri('spiffe://shop.test/web')], constraints([uri('.shop.test')])],
    ['do not permit another URI', false, [uri('spiffe://bank.test/shop.test')], constraints([uri('shop.test')])],
    ['do not permit a URI without a host', false, [uri('urn:shop.test')], constraints([uri('shop.test')])],
    ['do not permit a URI with an empty host', false, [uri('spiffe:///shop.test')], constraints([uri('shop.test')])],
    ['exclude a URI', false, [uri('spiffe://shop.test/web')], constraints([], [uri('shop.test')])],
    ['exclude a URI without a host', false, [uri('urn:bank')], constraints([], [uri('shop.test')])],
    ['permit an address', true, [address(v4)], constraints([address(net)])],
    ['do not permit another address', false, [address(v4)], constraints([address(otherNet)])],
    ['do not permit another mailbox', false, [email('ba@shop.test')], constraints([email('a@shop.test')])],
    ['exclude a mailbox', false, [email('a@shop.test')], constraints([], [email('shop.test')])],
    ['permit a directory', true, [], constraints([directory('O=shop')]), 'O=shop, CN=leaf'],
    [
      'permit a directory with another case and other blanks',
      true,
      [],
      constraints([directory('O=The  Shop')]),
      'O=the SHOP, CN=leaf',
    ],
    ['do not permit another directory', false, [], constraints([directory('O=shop')]), 'O=bank, CN=leaf'],
    ['exclude a directory', false, [], constraints([], [directory('O=shop')]), 'O=shop, CN=leaf'],
    [
      'apply to a directory among the names',
      false,
      [directory('O=bank')],
      constraints([directory('O=shop')]),
      'O=shop, CN=leaf',
    ],
    [
      'apply to an email address in the subject',
      false,
      [],
      constraints([email('shop.test')]),
      'E=a@bank.test, CN=leaf',
    ],
    ['apply to a common name that is a host', false, [], constraints([dns('shop.test')]), 'CN=bank.test'],
    [
      'do not apply to a common name next to a DNS name',
      true,
      [dns('shop.test')],
      constraints([dns('shop.test')]),
      'CN=bank.test',
    ],
    ['of a kind that is not known hold for that kind alone', true, [dns('shop.test')], constraints([], [registered])],
    ['of a kind that is not known exclude that kind', false, [registered], constraints([], [registered])],
  ];
  for (const [what, isGood, names, constrained, name = 'CN=leaf'] of cases)
    it(what, async () => {
      const certificate = await leaf(names, { name });
      await assertHandshake(true, certificate, [root.certificate]);
      await assertHandshake(isGood, certificate, [await anotherCertificate(root, { extensions: [constrained] })]);
    });

  it('with a minimum or a maximum are refused', async () => {
    const bounded = der(0x30, der(0xa0, der(0x30, dns('shop.test'), der(0x80, Buffer.from([1])))));
    const certificate = await leaf([dns('shop.test')]);
    await assertHandshake(false, certificate, [
      await anotherCertificate(root, { extensions: [extension('2.5.29.30', bounded)] }),
    ]);
  });

  it('apply to clients of its intermediates', async () => {
    const below = [
      department.certificate,
      await anotherCertificate(root, { extensions: [constraints([dns('shop.test')])] }),
    ];
    await assertHandshake(true, await leaf([dns('shop.test')], { by: department }), below);
    await assertHandshake(false, await leaf([dns('bank.test')], { by: department }), below);
  });

  it('of an intermediate apply to its clients, and those of its root to the intermediate itself', async () => {
    const certificate = await leaf([], { by: department, name: 'O=shop, CN=leaf' });
    const narrow = await anotherCertificate(department, { by: root, extensions: [constraints([directory('O=bank')])] });
    await assertHandshake(false, certificate, [narrow, root.certificate]);
    const wide = await anotherCertificate(root, { extensions: [constraints([directory('O=shop')])] });
    await assertHandshake(false, certificate, [department.certificate, wide]);
  });
});

describe('a self-issued certificate, whose subject equals its issuer,', () => {
  const shopOnly = constraints([dns('shop.test')]);
  const selfIssued = async (name: string): Promise<string> => {
    const { publicKey } = new x509.X509Certificate(root.certificate);
    const issuer = await x509.AuthorityKeyIdentifierExtension.create(publicKey);
    const subject = await x509.SubjectKeyIdentifierExtension.create(
      new x509.X509Certificate(client.certificate).publicKey,
    );
    return leaf([dns(name)], { name: 'CN=root', extensions: [usages(CLIENT_AUTH), issuer, subject] });
  };

  it('is accepted as a client', async () => assertHandshake(true, await selfIssued('bank.test'), [root.certificate]));

  it("is subject to its authority's name constraints", async () => {
    const narrow = await anotherCertificate(root, { extensions: [shopOnly] });
    await assertHandshake(true, await selfIssued('shop.test'), [narrow]);
    await assertHandshake(false, await selfIssued('bank.test'), [narrow]);
  });

  it('does not free its clients from the name constraints above it', async () => {
    const renewed = await CertificateAuthority.create(SYSTEM, 'root');
    const identifiers = await Promise.all([
      x509.AuthorityKeyIdentifierExtension.create(new x509.X509Certificate(root.certificate).publicKey),
      x509.SubjectKeyIdentifierExtension.create(new x509.X509Certificate(renewed.certificate).publicKey),
    ]);
    // Without key identifiers, OpenSSL would mistake this cross-certificate for a self-signed root.
    const crossed = await anotherCertificate(renewed, { by: root, extensions: identifiers });
    const narrow = await anotherCertificate(root, { extensions: [shopOnly] });
    await assertHandshake(true, await leaf([dns('shop.test')], { by: renewed }), [crossed, narrow]);
    await assertHandshake(false, await leaf([dns('bank.test')], { by: renewed }), [crossed, narrow]);
  });
});

describe('the usages of an authority', () => {
  const cases: readonly (readonly [what: string, isGood: boolean, CertificateOptions])[] = [
    ['allow clients if it has none', true, {}],
    ['allow clients if they include client authentication', true, { extensions: [usages(CLIENT_AUTH, SERVER_AUTH)] }],
    ['exclude clients if they are for servers', false, { extensions: [usages(SERVER_AUTH)] }],
    ['exclude clients if they are "any", as OpenSSL decides', false, { extensions: [usages(ANY_USAGE)] }],
    ['must include signing certificates', false, { usages: digitalSignature }],
    ['require that it is an authority', false, { authority: false, usages: keyCertSign }],
  ];
  for (const [what, isGood, options] of cases) {
    it(`${what}: of a root`, async () =>
      assertHandshake(isGood, await leaf([dns('shop.test')]), [await anotherCertificate(root, options)]));
    it(`${what}: of an intermediate`, async () =>
      assertHandshake(isGood, await leaf([dns('shop.test')], { by: department }), [
        await anotherCertificate(department, { ...options, by: root }),
        root.certificate,
      ]));
  }

  it("are checked for the client's certificate too", async () => {
    const authorities = [root.certificate];
    await assertHandshake(false, await leaf([], { extensions: [usages(SERVER_AUTH)] }), authorities);
    await assertHandshake(true, await leaf([], { extensions: [usages(CLIENT_AUTH, SERVER_AUTH)] }), authorities);
    await assertHandshake(true, await leaf([], { extensions: [] }), authorities);
  });
});

describe('the path length of an authority', () => {
  const lengths = (ofRoot: number | undefined, ofDepartment: number | undefined): Promise<string[]> =>
    Promise.all([
      Promise.resolve(team.certificate),
      anotherCertificate(department, { by: root, ...(ofDepartment === undefined ? {} : { pathLength: ofDepartment }) }),
      anotherCertificate(root, ofRoot === undefined ? {} : { pathLength: ofRoot }),
    ]);
  for (const [ofRoot, ofDepartment, isGood] of [
    [undefined, undefined, true],
    [2, 1, true],
    [undefined, 1, true],
    [200, 130, true],
    [1, 1, false],
    [0, 1, false],
    [2, 0, false],
  ] as const)
    it(`limits the number of intermediates: ${ofRoot} at the root, ${ofDepartment} at the department`, async () =>
      assertHandshake(isGood, await leaf([], { by: team }), await lengths(ofRoot, ofDepartment)));

  it('of 0 allows it to issue certificates to clients', async () =>
    assertHandshake(true, await leaf([]), [await anotherCertificate(root, { pathLength: 0 })]));

  it('does not include another certificate of the same authority', async () => {
    const renewed = await CertificateAuthority.create(SYSTEM, 'root');
    const crossed = await anotherCertificate(renewed, { by: root });
    const narrow = await anotherCertificate(root, { pathLength: 0 });
    await assertHandshake(true, await leaf([], { by: renewed }), [crossed, narrow]);
  });
});

describe('an unknown extension', () => {
  const strange = (critical: boolean): x509.Extension => extension('1.3.6.1.4.1.99999.1', der(0x05), critical);
  for (const critical of [true, false])
    it(`${critical ? 'is refused if it is critical' : 'is ignored if it is not critical'}`, async () => {
      await assertHandshake(!critical, await leaf([]), [
        await anotherCertificate(root, { extensions: [strange(critical)] }),
      ]);
      await assertHandshake(!critical, await leaf([], { extensions: [strange(critical)] }), [root.certificate]);
    });

  it('is not a certificate policy or a distribution point, which are accepted', async () => {
    const policies = extension('2.5.29.32', der(0x30, der(0x30, der(0x06, Buffer.from([0x55, 0x1d, 0x20, 0x00])))));
    const points = extension('2.5.29.31', der(0x30, der(0x30, der(0xa0, der(0xa0, uri('http://crl.test/'))))));
    await assertHandshake(true, await leaf([]), [await anotherCertificate(root, { extensions: [policies, points] })]);
  });
});
