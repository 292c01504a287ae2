import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it, type TestContext } from 'node:test';
import { createLocalJWKSet, type JSONWebKeySet } from 'jose';
import type { Connection } from '../../lib/http/connection.ts';
import { Authority, type AuthorityOptions, type ClientContext } from '../../lib/identity/authority.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { ClientTrust } from '../../lib/identity/client-trust.ts';
import { audienceUri, type Verdict } from '../../lib/identity/producer-identity.ts';
import { TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { SYSTEM } from '../support/system.ts';

const root = new CertificateAuthority('root');
const rootCertificate = new X509Certificate(root.certificate);
const other = new X509Certificate(new CertificateAuthority('other').certificate);
const department = await root.intermediate('department');

const issuer = await TokenIssuer.create('first');
const keys = createLocalJWKSet(JSON.parse(jwks(issuer)) as JSONWebKeySet);
const verifier = new TokenVerifier({ keys, issuer: undefined, audience: 'here' });

interface Opened {
  readonly connection: Connection<ClientContext>;
  readonly closed: () => boolean;
}

async function opened(
  by: CertificateAuthority | undefined,
  {
    fault,
    notAfter,
    under,
    uris = ['urn:one', audienceUri('here')],
  }: { fault?: string; notAfter?: Date; under?: Authority; uris?: readonly string[] } = {},
): Promise<Opened> {
  let closed = false;
  const issued = await by?.issue({ commonName: 'one', uris, ...(notAfter && { notAfter }) });
  const connection = {
    clientCertificate: issued && { certificate: new X509Certificate(issued.certificate), fault },
    context: under?.context() ?? { trust: trusting(rootCertificate), judged: undefined },
    retire: () => (closed = true),
  };
  return { connection: connection as unknown as Connection<ClientContext>, closed: () => closed };
}

const trusting = (...roots: readonly X509Certificate[]): ClientTrust => new ClientTrust(roots, []);

const authorityWith = (options: Partial<AuthorityOptions> = {}): Authority =>
  new Authority({ clock: SYSTEM.clock, audience: 'here', trust: trusting(rootCertificate), ...options });

function judged(authority: Authority, { connection }: Opened): Verdict {
  const verdict = authority.judge(connection, undefined);
  assert.ok(!(verdict instanceof Promise));
  return verdict;
}

function clockAt(t: TestContext, now: number): (ms: number) => void {
  t.mock.timers.enable({ apis: ['Date'], now });
  return (ms) => t.mock.timers.setTime(ms);
}

describe('a verdict', () => {
  it('is computed once for a connection and kept', async () => {
    const authority = authorityWith();
    const one = await opened(root);
    const first = judged(authority, one);
    assert.equal(first.kind, 'producer');
    assert.equal(judged(authority, one), first);
  });

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

  it('ends when the certificate of an open connection expires, even without a revocation list', async (t) => {
    const endMs = Math.ceil(Date.now() / 1000) * 1000 + 60_000;
    const authority = authorityWith();
    const one = await opened(root, { notAfter: new Date(endMs) });
    const below = await opened(department, { notAfter: new Date(endMs), under: authority });
    const setClock = clockAt(t, Date.now());
    for (const each of [one, below]) assert.equal(judged(authority, each).kind, 'producer');
    setClock(endMs - 1);
    for (const each of [one, below]) assert.equal(judged(authority, each).kind, 'producer');
    setClock(endMs);
    for (const each of [one, below]) assert.equal(judged(authority, each).kind, 'unauthenticated');
  });

  it('is the verdict of the handshake if only the client has the chain and the trust has not changed since', async () => {
    const authority = authorityWith();
    const one = await opened(department, { under: authority });
    assert.equal(judged(authority, one).kind, 'producer');
    authority.replaceTrust(trusting(rootCertificate, other), []);
    one.connection.context.judged = undefined;
    assert.equal(judged(authority, one).kind, 'unauthenticated');
  });
});

describe('new trust', () => {
  it('closes only connections whose authorities it does not contain', async () => {
    const authority = authorityWith();
    const [known, nobody, refused] = [await opened(root), await opened(undefined), await opened(root, { fault: 'x' })];
    const all = [known, nobody, refused];
    judged(authority, known);
    const connections = all.map(({ connection }) => connection);
    assert.equal(authority.replaceTrust(trusting(rootCertificate, other), connections).length, 0);
    assert.equal(judged(authority, known).kind, 'producer');
    assert.equal(authority.replaceTrust(trusting(other), connections).length, 1);
    assert.deepEqual(
      all.map(({ closed }) => closed()),
      [true, false, false],
    );
    assert.equal(judged(authority, known).kind, 'unauthenticated');
  });

  it('applies immediately to connections with an earlier verdict', async () => {
    const authority = authorityWith({ trust: trusting(other) });
    const one = await opened(root);
    assert.equal(judged(authority, one).kind, 'unauthenticated', 'its handshake began under other material');
    authority.replaceTrust(trusting(rootCertificate), [one.connection]);
    assert.equal(judged(authority, one).kind, 'producer');
    assert.equal(one.closed(), false);
  });
});

describe('a verdict if tokens are required', () => {
  const SPIFFE_ID = 'spiffe://test/one';

  async function start() {
    const authority = authorityWith({ verifier, tokenRequired: true });
    const one = await opened(root, { uris: [SPIFFE_ID] });
    return {
      authority,
      one,
      ask: (authorization: string | undefined) => authority.judge(one.connection, authorization),
      tokenOf: async (aud: string) => `Bearer ${await issuer.token({ sub: SPIFFE_ID, aud })}`,
    };
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

  it('is unauthenticated without a certificate, even with a valid token', async () => {
    const { authority, tokenOf } = await start();
    const authorization = await tokenOf('here');
    const verdict = authority.judge((await opened(undefined)).connection, authorization);
    assert.equal((await verdict).kind, 'unauthenticated');
  });

  it('is dropped when keys change, and not kept if they change during the verification', async () => {
    const { authority, one, ask, tokenOf } = await start();
    const token = await tokenOf('here');
    const kept = await ask(token);
    authority.forget([one.connection]);
    const again = await ask(token);
    assert.notEqual(again, kept);
    assert.equal(ask(token), again);
    for (const change of [() => authority.forget([]), () => authority.replaceTrust(trusting(rootCertificate), [])]) {
      authority.forget([one.connection]);
      const late = ask(token);
      change();
      assert.equal((await late).kind, 'producer');
      assert.equal(one.connection.context.judged, undefined);
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
  for (const [given, kind] of cases)
    it(`${kind}: ${JSON.stringify(given)}`, async () => {
      const authority = authorityWith({
        verifier: given.tokens && verifier,
        tokenRequired: given.tokens === 'required',
        grants: (producer) => given.grant === true && producer === NAME,
      });
      const token = {
        good: { aud: 'here' },
        'of another audience': { aud: 'there' },
        bad: { sub: 'spiffe://test/two' },
      };
      const authorization = given.token && `Bearer ${await issuer.token({ sub: NAME, ...token[given.token] })}`;
      const { connection } = await opened(root, {
        uris: [NAME, audienceUri(given.certificate === true ? 'here' : 'HERE')],
      });
      const verdict = await authority.judge(connection, authorization);
      assert.equal(verdict.kind, kind);
      const again = authority.judge(connection, 'Bearer other');
      assert.equal(
        again === verdict,
        given.tokens === undefined || (given.tokens === 'asked' && Boolean(given.certificate ?? given.grant)),
      );
    });

  it('ends on open connections when the operator withdraws the grant', async () => {
    let granted = true;
    const authority = authorityWith({ grants: () => granted });
    const one = await opened(root, { uris: [NAME] });
    assert.equal(judged(authority, one).kind, 'producer');
    granted = false;
    authority.forget([one.connection]);
    assert.equal(judged(authority, one).kind, 'audienceMissing');
  });

  it('is compared exactly: another case, length or prefix is another audience', async () => {
    const authority = authorityWith();
    const wanted = audienceUri('here');
    for (const uri of [wanted.toUpperCase(), `${wanted}x`, wanted.slice(0, -1), 'urn:ingest:aud:', `urn:x:${wanted}`])
      assert.equal(judged(authority, await opened(root, { uris: [NAME, uri] })).kind, 'audienceMissing', uri);
  });
});
