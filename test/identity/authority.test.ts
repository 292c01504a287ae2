import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { createLocalJWKSet, type JSONWebKeySet } from 'jose';
import type { Connection } from '../../lib/http/connection.ts';
import { Authority, type AuthorityOptions, type ClientContext } from '../../lib/identity/authority.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { ClientTrust } from '../../lib/identity/client-trust.ts';
import { audienceUri, type Verdict } from '../../lib/identity/producer-identity.ts';
import { readRevocationList } from '../../lib/identity/revocation-list.ts';
import { TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { eventually } from '../support/scope.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { SYSTEM } from '../support/system.ts';

const root = new CertificateAuthority('root');
const rootCertificate = new X509Certificate(root.certificate);
const other = new X509Certificate(new CertificateAuthority('other').certificate);
const server = await root.issue({ commonName: 'localhost', server: true });

const issuer = await TokenIssuer.create('first');
const keys = createLocalJWKSet(JSON.parse(jwks(issuer)) as JSONWebKeySet);
const verifier = new TokenVerifier({ keys, issuer: undefined, audience: 'here' });

interface Opened {
  readonly connection: Connection<ClientContext>;
  readonly closed: () => boolean;
}

async function opened(
  by: CertificateAuthority | undefined,
  options: { fault?: string; notAfter?: Date; under?: Authority; uris?: readonly string[] } = {},
): Promise<Opened> {
  const { fault, notAfter, under, uris = ['urn:one', audienceUri('here')] } = options;
  let closed = false;
  const issued = await by?.issue({ commonName: 'one', uris, ...(notAfter && { notAfter }) });
  const connection = {
    clientCertificate: issued && { certificate: new X509Certificate(issued.certificate), fault },
    context: under?.context() ?? { trust: rootTrust, trustedUntilMs: Infinity, latest: undefined },
    retire: () => (closed = true),
  };
  return { connection: connection as unknown as Connection<ClientContext>, closed: () => closed };
}

const trusting = (...roots: readonly X509Certificate[]): ClientTrust =>
  new ClientTrust({ cert: server.certificate, key: server.key }, roots, []);

const rootTrust = trusting(rootCertificate);

const authorityWith = (options: Partial<AuthorityOptions> = {}): Authority =>
  new Authority({ clock: SYSTEM.clock, audience: 'here', trust: rootTrust, ...options });

function judged(authority: Authority, { connection }: Opened): Verdict {
  const verdict = authority.judge(connection, undefined);
  assert.ok(!(verdict instanceof Promise));
  return verdict;
}

describe('a verdict', () => {
  it('names a producer as it was spelled first, in whatever spelling a certificate has its name', async () => {
    const authority = authorityWith();
    const spelled = async (uri: string): Promise<string> => {
      const verdict = judged(authority, await opened(root, { uris: [uri, 'URN:Ingest:aud:here'] }));
      assert.ok(verdict.kind === 'producer', verdict.kind);
      return verdict.producer;
    };
    assert.equal(await spelled('spiffe://Shop.test/web'), 'spiffe://Shop.test/web');
    assert.equal(await spelled('SPIFFE://shop.TEST/web'), 'spiffe://Shop.test/web');
    assert.equal(await spelled('spiffe://shop.test/Web'), 'spiffe://shop.test/Web');
  });

  it('ends when the certificate of an open connection expires', async () => {
    const authority = authorityWith();
    const notAfter = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1_000);
    const one = await opened(root, { notAfter, under: authority });
    assert.equal(judged(authority, one).kind, 'producer');
    const kind = async () => (await authority.judge(one.connection, undefined)).kind;
    await eventually('it ends', async () => (await kind()) === 'unauthenticated');
    assert.equal(one.closed(), true);
  });

  it('asks OpenSSL about a handshake that may have resumed a session of an authority that has expired since', async () => {
    const ended = new CertificateAuthority('ended', -0.01);
    const authority = authorityWith({ trust: trusting(rootCertificate, new X509Certificate(ended.certificate)) });
    for (const [by, kind] of [
      [root, 'producer'],
      [ended, 'unauthenticated'],
    ] as const)
      assert.equal((await authority.judge((await opened(by, { under: authority })).connection, undefined)).kind, kind);
  });
});

describe('new trust', () => {
  it('closes only connections whose certificates it refuses, those that arrive meanwhile included', async () => {
    const authority = authorityWith();
    const all = [await opened(root), await opened(undefined), await opened(root, { fault: 'x' })];
    const [known, late] = [all[0] as Opened, await opened(root)];
    const first = judged(authority, known);
    const connections = () => all.map(({ connection }) => connection);
    assert.equal((await authority.replaceTrust(trusting(rootCertificate, other), connections)).length, 0);
    assert.equal(judged(authority, known).kind, 'producer');
    const closed = authority.replaceTrust(trusting(other), connections);
    all.push(late);
    assert.deepEqual(judged(authority, known), first, 'until OpenSSL has judged it');
    assert.equal((await closed).length, 2);
    assert.deepEqual(
      all.map((one) => one.closed()),
      [true, false, false, true],
    );
    assert.equal((await authority.judge(known.connection, undefined)).kind, 'unauthenticated');
  });

  it('closes connections whose certificates are in a list first', async () => {
    const others = await Promise.all([opened(root), opened(root), opened(root)]);
    const { connection: listed } = await opened(root);
    const serial = listed.clientCertificate?.certificate.serialNumber ?? '';
    const unrelated = new CertificateAuthority('unrelated');
    const roots = [new X509Certificate(unrelated.certificate), rootCertificate];
    const texts = [await unrelated.revocationList([]), await root.revocationList(['4001', 'F001', serial])];
    const lists = texts.map((text) => readRevocationList(text, roots));
    const trust = new ClientTrust({ cert: server.certificate, key: server.key }, roots, lists);
    assert.ok(trust.isListed({ serialNumber: 'F001' } as X509Certificate));
    const all = [...others.map(({ connection }) => connection), listed];
    const judgedBefore: unknown[] = [];
    listed.retire = () => judgedBefore.push(...all.filter(({ context }) => context.trust === trust));
    assert.deepEqual(await authorityWith().replaceTrust(trust, () => all), [listed]);
    assert.deepEqual(judgedBefore, [listed]);
  });

  it('applies to a connection that nobody lists: one in the handshake, or with a verdict made before or meanwhile', async () => {
    const authority = authorityWith();
    const [handshaking, before, meanwhile] = await Promise.all([1, 2, 3].map(() => opened(root, { under: authority })));
    assert.ok(handshaking && before && meanwhile);
    assert.equal(judged(authority, before).kind, 'producer');
    const listed = await opened(root, { under: authority });
    const replaced = authority.replaceTrust(trusting(other), () => [listed.connection]);
    assert.equal(judged(authority, meanwhile).kind, 'producer');
    await replaced;
    for (const { connection, closed } of [handshaking, before, meanwhile]) {
      assert.equal((await authority.judge(connection, undefined)).kind, 'unauthenticated');
      assert.equal(closed(), true);
    }
    await authority.replaceTrust(trusting(rootCertificate), () => []);
    assert.equal((await authority.judge(before.connection, undefined)).kind, 'producer');
  });

  it('that cannot be judged does not leave the verdicts of the older one in use', async () => {
    const authority = authorityWith();
    const one = await opened(root, { under: authority });
    assert.equal(judged(authority, one).kind, 'producer');
    const broken = Promise.reject(new Error('broken'));
    broken.catch(() => undefined);
    const trust = Object.assign(trusting(other), { untilMs: () => broken });
    const replaced = authority.replaceTrust(trust, () => [one.connection]);
    await assert.rejects(replaced, /broken/);
    await assert.rejects(async () => authority.judge(one.connection, undefined), /broken/);
  });

  it('that is replaced meanwhile closes nobody', async () => {
    const authority = authorityWith();
    const one = await opened(root);
    const connections = () => [one.connection];
    const closed = authority.replaceTrust(trusting(other), connections);
    assert.equal((await authority.replaceTrust(trusting(rootCertificate), connections)).length, 0);
    assert.deepEqual([(await closed).length, one.closed()], [0, false]);
  });
});

describe('a verdict if tokens are required', () => {
  const SPIFFE_ID = 'spiffe://test/one';

  async function start() {
    const authority = authorityWith({ verifier, tokenRequired: true });
    const { connection } = await opened(root, { uris: [SPIFFE_ID] });
    const ask = (authorization: string | undefined) => authority.judge(connection, authorization);
    return { authority, ask, tokenOf: async (aud: string) => `Bearer ${await issuer.token({ sub: SPIFFE_ID, aud })}` };
  }

  it('is kept for the same token, and computed again for another token or none', async () => {
    const { ask, tokenOf } = await start();
    const [good, other] = [await tokenOf('here'), await tokenOf('there')];
    const first = await ask(good);
    assert.equal(first.kind, 'producer');
    assert.equal(ask(good), first);
    assert.equal((await ask(other)).kind, 'audienceMissing');
    assert.equal((await ask(undefined)).kind, 'unauthenticated');
    assert.equal((await ask(good)).kind, 'producer');
  });

  it('is dropped when keys change, and not kept if they change during the verification', async () => {
    const { authority, ask, tokenOf } = await start();
    const token = await tokenOf('here');
    const kept = await ask(token);
    authority.forget();
    const again = await ask(token);
    assert.notEqual(again, kept);
    assert.equal(ask(token), again);
    for (const change of [
      () => authority.forget(),
      () => authority.replaceTrust(trusting(rootCertificate), () => []),
    ]) {
      authority.forget();
      const late = ask(token);
      change();
      const verdict = await late;
      assert.equal(verdict.kind, 'producer');
      assert.notEqual(await ask(token), verdict);
    }
  });
});

describe('the audience of a trusted producer', () => {
  const NAME = 'spiffe://test/one';
  interface Given {
    readonly certificate?: boolean;
    readonly grant?: boolean;
    readonly tokens?: 'asked' | 'required';
    readonly token?: 'good' | 'of another audience' | 'bad';
  }
  const cases: readonly (readonly [Given, Verdict['kind']])[] = [
    [{}, 'audienceMissing'],
    [{ certificate: true }, 'producer'],
    [{ grant: true }, 'producer'],
    [{ certificate: true, grant: true }, 'producer'],
    [{ token: 'good' }, 'audienceMissing'],
    [{ tokens: 'asked' }, 'unauthenticated'],
    [{ tokens: 'asked', token: 'bad' }, 'unauthenticated'],
    [{ tokens: 'asked', token: 'of another audience' }, 'audienceMissing'],
    [{ tokens: 'asked', token: 'good' }, 'producer'],
    [{ tokens: 'asked', certificate: true }, 'producer'],
    [{ tokens: 'asked', certificate: true, token: 'bad' }, 'producer'],
    [{ tokens: 'asked', grant: true }, 'producer'],
    [{ tokens: 'asked', grant: true, token: 'of another audience' }, 'producer'],
    [{ tokens: 'required' }, 'unauthenticated'],
    [{ tokens: 'required', certificate: true, grant: true }, 'unauthenticated'],
    [{ tokens: 'required', certificate: true, grant: true, token: 'bad' }, 'unauthenticated'],
    [{ tokens: 'required', certificate: true, grant: true, token: 'of another audience' }, 'audienceMissing'],
    [{ tokens: 'required', token: 'good' }, 'producer'],
  ];
  it('comes from its certificate, a grant or a token, and from a token alone if tokens are required', async () => {
    const claims = {
      good: { aud: 'here' },
      'of another audience': { aud: 'there' },
      bad: { sub: 'spiffe://test/two' },
    };
    for (const [given, kind] of cases) {
      const authority = authorityWith({
        verifier: given.tokens && verifier,
        tokenRequired: given.tokens === 'required',
        grants: (producer) => given.grant === true && producer === NAME,
      });
      const authorization = given.token && `Bearer ${await issuer.token({ sub: NAME, ...claims[given.token] })}`;
      const uris = [NAME, audienceUri(given.certificate === true ? 'here' : 'HERE')];
      const { connection } = await opened(root, { uris });
      const verdict = await authority.judge(connection, authorization);
      assert.equal(verdict.kind, kind, JSON.stringify(given));
      const isKept =
        given.tokens === undefined || (given.tokens === 'asked' && Boolean(given.certificate ?? given.grant));
      assert.equal(authority.judge(connection, 'Bearer other') === verdict, isKept, JSON.stringify(given));
    }
  });

  it('is compared exactly: another case, length or prefix is another audience', async () => {
    const authority = authorityWith();
    const wanted = audienceUri('here');
    for (const uri of [wanted.toUpperCase(), `${wanted}x`, wanted.slice(0, -1), 'urn:ingest:aud:', `urn:x:${wanted}`])
      assert.equal(judged(authority, await opened(root, { uris: [NAME, uri] })).kind, 'audienceMissing', uri);
  });
});
