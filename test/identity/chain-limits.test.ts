// What authorities allow below them: each case is judged by OpenSSL in a real handshake and by ClientTrust on an open
// connection, whose handshake was under other material. Both must say the same.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { CertificateAuthority } from '../../lib/identity/certificate-authority.ts';
import { ClientTrust } from '../../lib/identity/client-trust.ts';
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

/** DER of an element: its tag and what is in it. */
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

/** A client's certificate by `by`, under these names. */
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

/** What the trusted authorities, a chain's root last, say of the leaf: OpenSSL and ClientTrust. */
async function agree(isGood: boolean, certificate: string, authorities: readonly string[]): Promise<void> {
  const ca = authorities.join('');
  const fault = await handshakeFault(
    { cert: certificate, key: await client.key() },
    { cert: server.certificate, key: server.key, ca },
  );
  const trust = new ClientTrust(
    authorities.map((authority) => new X509Certificate(authority)),
    [],
  );
  const parsed = new X509Certificate(certificate);
  const verdict = trust.judge(parsed, false, Date.now());
  const said = `OpenSSL: ${fault ?? 'good'}; ClientTrust: ${JSON.stringify(verdict)}`;
  assert.equal(fault === undefined, isGood, said);
  assert.equal(verdict.trusted, isGood, said);
  // What the handshake under this material has accepted stays accepted, and what time has ended does not count.
  if (isGood) assert.ok(trust.judge(parsed, true, Date.now()).trusted);
}

describe('name constraints of an authority, under its own key,', () => {
  const [v4, v6] = [Buffer.from([10, 1, 2, 3]), Buffer.alloc(16, 1)];
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
    ['permit a DNS name in other letters', true, [dns('Shop.Test')], constraints([dns('sHOP.tEST')])],
    ['permit a DNS name below', true, [dns('web.shop.test')], constraints([dns('shop.test')])],
    ['permit a DNS name below one with a dot', true, [dns('web.shop.test')], constraints([dns('.shop.test')])],
    ['permit any DNS name', true, [dns('any.test')], constraints([dns('')])],
    ['do not permit another DNS name', false, [dns('bank.test')], constraints([dns('shop.test')])],
    ['do not permit a DNS name that ends alike', false, [dns('myshop.test')], constraints([dns('shop.test')])],
    ['do not permit the one above', false, [dns('test')], constraints([dns('shop.test')])],
    [
      'want each DNS name to be permitted',
      false,
      [dns('shop.test'), dns('bank.test')],
      constraints([dns('shop.test')]),
    ],
    ['permit by one of several', true, [dns('bank.test')], constraints([dns('shop.test'), dns('bank.test')])],
    ['exclude a DNS name', false, [dns('shop.test')], constraints([], [dns('shop.test')])],
    ['exclude a DNS name in other letters', false, [dns('SHOP.test')], constraints([], [dns('shop.TEST')])],
    ['exclude a DNS name below', false, [dns('a.b.shop.test')], constraints([], [dns('shop.test')])],
    [
      'exclude one that is permitted',
      false,
      [dns('a.shop.test')],
      constraints([dns('shop.test')], [dns('a.shop.test')]),
    ],
    ['exclude no other DNS name', true, [dns('bank.test')], constraints([], [dns('shop.test')])],
    ['exclude all DNS names', false, [dns('any.test')], constraints([], [dns('')])],
    ['permit what has no DNS name', true, [uri('spiffe://shop.test/web')], constraints([dns('bank.test')])],
    ['permit a URI by its host', true, [uri('spiffe://shop.test/web')], constraints([uri('shop.test')])],
    ['permit a URI with a port', true, [uri('https://shop.test:8443/web')], constraints([uri('shop.test')])],
    ['permit a URI in other letters', true, [uri('spiffe://Shop.test/web')], constraints([uri('shop.TEST')])],
    ['permit a URI below', true, [uri('spiffe://eu.shop.test/web')], constraints([uri('.shop.test')])],
    ['do not permit a URI below a host', false, [uri('spiffe://eu.shop.test/web')], constraints([uri('shop.test')])],
    ['do not permit the host of a domain', false, [uri('spiffe://shop.test/web')], constraints([uri('.shop.test')])],
    ['do not permit another URI', false, [uri('spiffe://bank.test/shop.test')], constraints([uri('shop.test')])],
    ['do not permit a URI without a host', false, [uri('urn:shop.test')], constraints([uri('shop.test')])],
    ['do not permit a URI with an empty host', false, [uri('spiffe:///shop.test')], constraints([uri('shop.test')])],
    ['exclude a URI', false, [uri('spiffe://shop.test/web')], constraints([], [uri('shop.test')])],
    ['exclude no other URI', true, [uri('spiffe://bank.test/web')], constraints([], [uri('shop.test')])],
    ['exclude a URI without a host', false, [uri('urn:bank')], constraints([], [uri('shop.test')])],
    ['permit an address', true, [address(v4)], constraints([address(net)])],
    ['do not permit another address', false, [address(v4)], constraints([address(otherNet)])],
    ['exclude an address', false, [address(v4)], constraints([], [address(net)])],
    ['do not permit an address of another kind', false, [address(v6)], constraints([address(net)])],
    ['permit a mailbox', true, [email('a@shop.test')], constraints([email('a@shop.test')])],
    ['do not permit a mailbox in other letters', false, [email('A@shop.test')], constraints([email('a@shop.test')])],
    ['do not permit another mailbox', false, [email('ba@shop.test')], constraints([email('a@shop.test')])],
    ['permit all mailboxes of a host', true, [email('a@Shop.test')], constraints([email('shop.test')])],
    ['permit mailboxes below', true, [email('a@eu.shop.test')], constraints([email('.shop.test')])],
    ['do not permit mailboxes of another host', false, [email('a@eu.shop.test')], constraints([email('shop.test')])],
    ['exclude a mailbox', false, [email('a@shop.test')], constraints([], [email('shop.test')])],
    ['permit a directory', true, [], constraints([directory('O=shop')]), 'O=shop, CN=leaf'],
    [
      'permit a directory in other letters and blanks',
      true,
      [],
      constraints([directory('O=The  Shop')]),
      'O=the SHOP, CN=leaf',
    ],
    ['do not permit another directory', false, [], constraints([directory('O=shop')]), 'O=bank, CN=leaf'],
    ['do not permit a longer word', false, [], constraints([directory('O=shop')]), 'O=shopping, CN=leaf'],
    ['exclude a directory', false, [], constraints([], [directory('O=shop')]), 'O=shop, CN=leaf'],
    ['exclude no other directory', true, [], constraints([], [directory('O=shop')]), 'O=bank, CN=leaf'],
    [
      'hold for a directory among the names',
      false,
      [directory('O=bank')],
      constraints([directory('O=shop')]),
      'O=shop, CN=leaf',
    ],
    [
      'hold for an email address in the subject',
      false,
      [],
      constraints([email('shop.test')]),
      'E=a@bank.test, CN=leaf',
    ],
    ['hold for a common name that is a host', false, [], constraints([dns('shop.test')]), 'CN=bank.test'],
    ['permit a common name that is a host', true, [], constraints([dns('shop.test')]), 'CN=eu.shop.test'],
    ['hold for no common name of other words', true, [], constraints([dns('shop.test')]), 'CN=The Bank'],
    [
      'hold for no common name beside a DNS name',
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
      await agree(true, certificate, [root.certificate]);
      await agree(isGood, certificate, [await anotherCertificate(root, { extensions: [constrained] })]);
    });

  it('count although the authority without them stays: OpenSSL may take either, and decides when the client comes again', async () => {
    const narrow = await anotherCertificate(root, { extensions: [constraints([dns('shop.test')])] });
    for (const authorities of [
      [narrow, root.certificate],
      [root.certificate, narrow],
    ]) {
      const trust = new ClientTrust(
        authorities.map((authority) => new X509Certificate(authority)),
        [],
      );
      const [shop, bank] = await Promise.all([leaf([dns('shop.test')]), leaf([dns('bank.test')])]);
      const judge = (certificate: string, vouched: boolean) =>
        trust.judge(new X509Certificate(certificate), vouched, Date.now());
      assert.ok(judge(shop, false).trusted);
      assert.deepEqual(judge(bank, false), { trusted: false, why: 'outside_constraints' });
      assert.ok(judge(bank, true).trusted);
      assert.ok(!judge(bank, false).trusted, 'what a handshake vouched for is not kept for those without');
    }
  });

  it('with a bound are refused', async () => {
    const bounded = der(0x30, der(0xa0, der(0x30, dns('shop.test'), der(0x80, Buffer.from([1])))));
    const certificate = await leaf([dns('shop.test')]);
    await agree(false, certificate, [
      await anotherCertificate(root, { extensions: [extension('2.5.29.30', bounded)] }),
    ]);
  });

  it('hold for all that is below, through an intermediate', async () => {
    const below = [
      department.certificate,
      await anotherCertificate(root, { extensions: [constraints([dns('shop.test')])] }),
    ];
    await agree(true, await leaf([dns('shop.test')], { by: department }), below);
    await agree(false, await leaf([dns('bank.test')], { by: department }), below);
  });

  it('of an intermediate hold below it, and those of its root for its own name too', async () => {
    const certificate = await leaf([], { by: department, name: 'O=shop, CN=leaf' });
    const narrow = await anotherCertificate(department, { by: root, extensions: [constraints([directory('O=bank')])] });
    await agree(false, certificate, [narrow, root.certificate]);
    const wide = await anotherCertificate(root, { extensions: [constraints([directory('O=shop')])] });
    await agree(false, certificate, [department.certificate, wide]);
  });
});

describe('the usages of an authority', () => {
  const cases: readonly (readonly [what: string, isGood: boolean, CertificateOptions])[] = [
    ['are any where it names none', true, {}],
    ['may be clients', true, { extensions: [usages(CLIENT_AUTH, SERVER_AUTH)] }],
    ['that are servers leave clients out', false, { extensions: [usages(SERVER_AUTH)] }],
    ['that are any leave clients out, as OpenSSL has it', false, { extensions: [usages(ANY_USAGE)] }],
    ['must be to sign certificates', false, { usages: digitalSignature }],
    ['must be those of an authority', false, { authority: false, usages: keyCertSign }],
  ];
  for (const [what, isGood, options] of cases) {
    it(`${what}: of a root`, async () =>
      agree(isGood, await leaf([dns('shop.test')]), [await anotherCertificate(root, options)]));
    it(`${what}: of an intermediate`, async () =>
      agree(isGood, await leaf([dns('shop.test')], { by: department }), [
        await anotherCertificate(department, { ...options, by: root }),
        root.certificate,
      ]));
  }

  it("are asked of the client's certificate too", async () => {
    const authorities = [root.certificate];
    await agree(false, await leaf([], { extensions: [usages(SERVER_AUTH)] }), authorities);
    await agree(true, await leaf([], { extensions: [usages(CLIENT_AUTH, SERVER_AUTH)] }), authorities);
    await agree(true, await leaf([], { extensions: [] }), authorities);
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
    it(`counts the intermediates below: ${ofRoot} and ${ofDepartment}`, async () =>
      agree(isGood, await leaf([], { by: team }), await lengths(ofRoot, ofDepartment)));

  it('of nought lets it issue to clients', async () =>
    agree(true, await leaf([]), [await anotherCertificate(root, { pathLength: 0 })]));

  it('does not count another certificate of the same authority', async () => {
    const renewed = await CertificateAuthority.create(SYSTEM, 'root');
    const crossed = await anotherCertificate(renewed, { by: root });
    const narrow = await anotherCertificate(root, { pathLength: 0 });
    await agree(true, await leaf([], { by: renewed }), [crossed, narrow]);
  });
});

describe('an extension that is not known', () => {
  const strange = (critical: boolean): x509.Extension => extension('1.3.6.1.4.1.99999.1', der(0x05), critical);
  for (const critical of [true, false])
    it(`${critical ? 'ends a chain where it is critical' : 'does not matter where it is not critical'}`, async () => {
      await agree(!critical, await leaf([]), [await anotherCertificate(root, { extensions: [strange(critical)] })]);
      await agree(!critical, await leaf([], { extensions: [strange(critical)] }), [root.certificate]);
    });

  it('of those that every verifier knows does not matter', async () => {
    const policies = extension('2.5.29.32', der(0x30, der(0x30, der(0x06, Buffer.from([0x55, 0x1d, 0x20, 0x00])))));
    const points = extension('2.5.29.31', der(0x30, der(0x30, der(0xa0, der(0xa0, uri('http://crl.test/'))))));
    await agree(true, await leaf([]), [await anotherCertificate(root, { extensions: [policies, points] })]);
  });
});
