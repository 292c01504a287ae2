// Certificates of clients that are connected. Each answer must be that of a real handshake with the same files.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { ClientTrust } from '../../lib/identity/client-trust.ts';
import { readRevocationList } from '../../lib/identity/revocation-list.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { handshake, type Presented } from '../support/handshake.ts';
import { OpenSsl } from '../support/openssl.ts';
import { eventually } from '../support/scope.ts';

const made = new OpenSsl();
const AUTHORITY = 'basicConstraints=critical,CA:true\nsubjectKeyIdentifier=hash';
const CLIENT = 'extendedKeyUsage=clientAuth\nsubjectAltName=URI:spiffe://shop/web';
made.root('server', '/CN=localhost');
for (const name of ['root', 'other']) made.root(name);
made.root('namesake', '/CN=root');
made.issue('department', 'root', AUTHORITY);
for (const name of ['shop', 'gone']) made.issue(name, 'root', CLIENT);
for (const name of ['clerk', 'former']) made.issue(name, 'department', CLIENT);
/** Another certificate for the key and the name of an authority. */
made.run('x509', '-in', 'root.pem', '-signkey', 'root.key', '-days', '60', '-out', 'root-again.pem');
const of = ['-CA', 'root.pem', '-CAkey', 'root.key', '-days', '20'];
made.run('x509', '-req', '-in', 'department.csr', ...of, '-extfile', 'department.ext', '-out', 'department-again.pem');

const pem = (...names: readonly string[]): string => names.map((name) => made.text(`${name}.pem`)).join('');
const certificateOf = (text: string): X509Certificate => new X509Certificate(text);
const server: Presented = { cert: pem('server'), key: made.text('server.key') };

interface Material {
  readonly authorities: readonly string[];
  readonly lists?: readonly string[];
}

function trustOf({ authorities, lists = [] }: Material): ClientTrust {
  const certificates = authorities.map(certificateOf);
  const read = lists.map((list) => readRevocationList(list, certificates));
  return new ClientTrust(server, certificates, read);
}

/** Asks about a certificate as it arrives in a handshake, with the intermediates that the client sends. */
async function assertAgreed(material: Material, client: string, ...sent: readonly string[]): Promise<boolean> {
  const presented = { cert: pem(client, ...sent), key: made.text(`${client}.key`) };
  const { authorities, lists } = material;
  const trusting = { ...server, ca: authorities.join(''), ...(lists && { crl: [...lists] }) };
  const { fault, certificate } = await handshake(presented, trusting);
  assert.ok(certificate !== undefined);
  const untilMs = await trustOf(material).untilMs(certificate, Date.now());
  assert.equal(untilMs > Date.now(), fault === undefined, `${client}: ${fault}`);
  return fault === undefined;
}

const files = (...names: readonly string[]): string[] => names.map((name) => pem(name));
const [ofRoot, ofDepartment, ofOther] = ['root', 'department', 'other'].map((name) => made.list(name)) as [
  string,
  string,
  string,
];

describe('a connected client is accepted exactly if a new handshake would be', () => {
  const both = files('root', 'department');
  const [ofFormer, ofGone] = [made.list('department', '', ['former']), made.list('root', '', ['department'])];
  const cases: readonly (readonly [title: string, Material, client: readonly [string, ...string[]], boolean])[] = [
    ['its authority stays', { authorities: files('other', 'root') }, ['shop'], true],
    ['its authority is gone', { authorities: files('other') }, ['shop'], false],
    ['another authority has the name', { authorities: files('namesake') }, ['shop'], false],
    ['its authority was issued again', { authorities: files('root-again') }, ['shop'], true],
    ['one of two certificates of its authority stays', { authorities: files('root-again', 'other') }, ['shop'], true],
    ['its intermediate is in the files', { authorities: files('department', 'root') }, ['clerk'], true],
    ['its intermediate is gone', { authorities: files('root') }, ['clerk'], false],
    ['it sends its intermediate', { authorities: files('root', 'other') }, ['clerk', 'department'], true],
    ['the root of what it sends is gone', { authorities: files('other') }, ['clerk', 'department'], false],
    ['only its intermediate is in the files', { authorities: files('department') }, ['clerk'], false],
    ['its own certificate is in the files', { authorities: files('server', 'other') }, ['server'], true],
    ['its own certificate is gone', { authorities: files('root') }, ['server'], false],
    ['no list names it', { authorities: files('root'), lists: [made.list('root', '', ['gone'])] }, ['shop'], true],
    ['a list names it', { authorities: files('root'), lists: [made.list('root', '', ['gone'])] }, ['gone'], false],
    ['the list of its intermediate names it', { authorities: both, lists: [ofRoot, ofFormer] }, ['former'], false],
    ['a list names its intermediate', { authorities: both, lists: [ofGone, ofDepartment] }, ['clerk'], false],
    ['its intermediate has no list', { authorities: both, lists: [ofRoot] }, ['clerk'], false],
    ['the one it sends has no list', { authorities: files('root'), lists: [ofRoot] }, ['clerk', 'department'], false],
    ['its authority has no list', { authorities: files('root', 'other'), lists: [ofOther] }, ['shop'], false],
  ];
  for (const [title, material, client, expected] of cases)
    it(`if ${title}: ${expected}`, async () => assert.equal(await assertAgreed(material, ...client), expected));

  it('if one of several possible chains is revoked', async () => {
    for (const revoked of ['department', 'department-again'])
      for (const names of [
        ['root', 'department', 'department-again'],
        ['department-again', 'department', 'root'],
      ])
        for (const sent of [[], [revoked]]) {
          const lists = [made.list('root', 'authorityKeyIdentifier=keyid', [revoked]), ofDepartment];
          await assertAgreed({ authorities: files(...names), lists }, 'clerk', ...sent);
        }
  });
});

describe('the answer about a client', () => {
  it('changes when its certificate, its authority or a list expires', async () => {
    const soon = new Date(Math.ceil(Date.now() / 1000) * 1000 + 2_000);
    const days = (soon.getTime() - Date.now()) / 86_400_000;
    const [long, short] = [new CertificateAuthority('long'), new CertificateAuthority('short', days)];
    const cases = [
      { by: long, notAfter: soon },
      { by: short },
      { by: long, lists: [await long.revocationList([], { nextUpdate: soon })] },
    ];
    const asked = await Promise.all(
      cases.map(async ({ by, notAfter, lists = [] }) => {
        const leaf = certificateOf((await by.issue({ commonName: 'one', ...(notAfter && { notAfter }) })).certificate);
        const trust = trustOf({ authorities: [by.certificate], lists });
        const untilMs = (): Promise<number> => trust.untilMs(leaf, Date.now());
        const endMs = await untilMs();
        assert.ok(endMs > Date.now() && endMs <= soon.getTime(), String(endMs));
        return untilMs;
      }),
    );
    for (const untilMs of asked) await eventually('it is refused', async () => (await untilMs()) === 0);
  });

  it('is one for each chain that a client sends with its certificate, and leaves nothing behind', async (t) => {
    const warn = t.mock.method(process, 'emitWarning', () => undefined);
    const trust = trustOf({ authorities: files('root') });
    const accepted: boolean[] = [];
    for (const names of [['clerk'], ['clerk', 'department'], ['clerk']]) {
      const presented = { cert: pem(...names), key: made.text('clerk.key') };
      const { certificate } = await handshake(presented, { ...server, ca: pem('root') });
      assert.ok(certificate !== undefined);
      accepted.push((await trust.untilMs(certificate, Date.now())) > 0);
    }
    assert.deepEqual(accepted, [false, true, false]);
    for (let times = 0; times < 12; times += 1) await trust.authorityFault(certificateOf(pem('root')), Date.now());
    assert.equal(warn.mock.callCount(), 0, 'such as one of many listeners');
  });

  it('is not taken from a handshake if an authority expired while the session could be resumed', () => {
    const now = Date.now();
    const trust = trustOf({ authorities: files('root', 'other') });
    const endMs = certificateOf(pem('root')).validToDate.getTime();
    assert.ok(trust.handshakeUntilMs(now + 7_200_000) > now + 7_200_000);
    assert.deepEqual(
      [endMs, endMs + 7_199_999].map((atMs) => trust.handshakeUntilMs(atMs)),
      [0, 0],
    );
  });
});
