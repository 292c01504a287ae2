// Which certificates are trusted while their connections are open: chains, time, revocation, and what a handshake
// vouches for.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { CertificateAuthority, type IssueOptions } from '../../lib/identity/certificate-authority.ts';
import { ClientTrust, type Distrust, type Revocations } from '../../lib/identity/client-trust.ts';
import { anotherCertificate } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

const HOUR_MS = 3_600_000;
const now = Date.now();
const root = await CertificateAuthority.create(SYSTEM, 'root');
const namesake = await CertificateAuthority.create(SYSTEM, 'root');
const other = await CertificateAuthority.create(SYSTEM, 'other root');
const department = await root.intermediate('department');
const team = await department.intermediate('team');

const parsed = ({ certificate }: { readonly certificate: string }): X509Certificate => new X509Certificate(certificate);

async function leafOf(authority: CertificateAuthority, more: Partial<IssueOptions> = {}): Promise<X509Certificate> {
  return parsed(await authority.issue({ commonName: 'leaf', ...more }));
}

function trusts(trust: ClientTrust, leaf: X509Certificate, vouched = false, atMs = now): number {
  const verdict = trust.judge(leaf, vouched, atMs);
  assert.ok(verdict.trusted, JSON.stringify(verdict));
  return verdict.untilMs;
}

function refuses(trust: ClientTrust, leaf: X509Certificate, why: Distrust, vouched = false, atMs = now): void {
  assert.deepEqual(trust.judge(leaf, vouched, atMs), { trusted: false, why });
}

const revocations = (
  authority: CertificateAuthority,
  leaves: readonly X509Certificate[] = [],
  nextUpdateMs: number | undefined = now + HOUR_MS,
): Revocations => ({
  authority: parsed(authority),
  serials: new Set(leaves.map(({ serialNumber }) => serialNumber)),
  nextUpdateMs,
});

describe('a chain', () => {
  it('to a configured root is trusted until its certificate ends', async () => {
    const notAfter = new Date(Math.ceil(now / 1000) * 1000 + HOUR_MS);
    const leaf = await leafOf(root, { notAfter });
    assert.equal(trusts(new ClientTrust([parsed(other), parsed(root)], []), leaf), notAfter.getTime());
  });

  it('through configured intermediates is trusted, in any order of the file', async () => {
    const leaf = await leafOf(team);
    const authorities = [parsed(team), parsed(root), parsed(department)];
    trusts(new ClientTrust(authorities, []), leaf);
    trusts(new ClientTrust(authorities.toReversed(), []), leaf);
  });

  it('to an authority that is not configured, or only shares the name of one, is not', async () => {
    refuses(new ClientTrust([parsed(root)], []), await leafOf(other), 'unknown_authority');
    refuses(new ClientTrust([parsed(root)], []), await leafOf(namesake), 'unknown_authority');
    refuses(new ClientTrust([], []), await leafOf(root), 'unknown_authority');
  });

  it('with a missing link is not, unless the handshake under this material followed it', async () => {
    const leaf = await leafOf(team);
    const trust = new ClientTrust([parsed(root), parsed(team)], []);
    refuses(trust, leaf, 'unknown_authority');
    trusts(trust, leaf, true);
    refuses(trust, leaf, 'unknown_authority');
  });

  it('that ends at an intermediate alone is not: only a root that signed itself is an end', async () => {
    refuses(new ClientTrust([parsed(department)], []), await leafOf(department), 'unknown_authority');
  });

  it('through a certificate that is no authority is not, though its key has signed the next', async () => {
    const issued = await root.issue({ commonName: 'no authority' });
    const impostor = await CertificateAuthority.load(SYSTEM, issued.certificate, issued.key);
    refuses(new ClientTrust([parsed(root), parsed(issued)], []), await leafOf(impostor), 'unknown_authority');
  });

  it('through an authority of another name is not, though it has the key', async () => {
    const renamed = new X509Certificate(await anotherCertificate(root, { name: 'CN=renamed' }));
    refuses(new ClientTrust([renamed], []), await leafOf(root), 'unknown_authority');
  });

  it('to an authority whose certificate was renewed is trusted, with the one that has ended beside it or without', async () => {
    const ended = new X509Certificate(await anotherCertificate(root, { notAfter: new Date(now - HOUR_MS) }));
    const leaf = await leafOf(root);
    trusts(new ClientTrust([ended, parsed(root)], []), leaf);
    trusts(new ClientTrust([parsed(root), ended], []), leaf);
    refuses(new ClientTrust([ended], []), leaf, 'expired');
  });

  it('is followed through seven intermediates and no more', async () => {
    let authority = root;
    const authorities = [parsed(root)];
    for (let level = 1; level <= 8; level += 1) {
      authority = await authority.intermediate(`level ${level}`);
      authorities.push(parsed(authority));
      const leaf = await leafOf(authority);
      if (level < 8) trusts(new ClientTrust(authorities, []), leaf);
      else refuses(new ClientTrust(authorities, []), leaf, 'unknown_authority');
    }
  });

  it('may be what comes with the certificate, where the runtime gives that, and ends also where it is a circle', async () => {
    const leaf = await leafOf(team);
    const sent = [parsed(team), parsed(department), parsed(root)];
    for (const [at, certificate] of [leaf, ...sent].entries())
      Object.defineProperty(certificate, 'issuerCertificate', { value: sent[Math.min(at, sent.length - 1)] });
    trusts(new ClientTrust([parsed(root)], []), leaf);
    refuses(new ClientTrust([parsed(other)], []), leaf, 'unknown_authority');
  });

  it('of a self-signed certificate is trusted only where that one is configured', () => {
    trusts(new ClientTrust([parsed(root)], []), parsed(root));
    refuses(new ClientTrust([parsed(root)], []), parsed(namesake), 'unknown_authority');
  });
});

describe('time', () => {
  it('ends the trust in a certificate at its last instant, without a revocation list, also where it was trusted and vouched for', async () => {
    const notAfter = new Date(Math.ceil(now / 1000) * 1000 + 60_000);
    const leaf = await leafOf(root, { notAfter });
    const trust = new ClientTrust([parsed(root)], []);
    trusts(trust, leaf, true);
    trusts(trust, leaf, true, notAfter.getTime() - 1);
    refuses(trust, leaf, 'expired', true, notAfter.getTime());
    refuses(trust, leaf, 'expired', true, notAfter.getTime() + HOUR_MS);
  });

  it('does not let a certificate in before its first instant', async () => {
    const notBefore = new Date(Math.floor(now / 1000) * 1000 + 60_000);
    const leaf = await leafOf(root, { notBefore });
    const trust = new ClientTrust([parsed(root)], []);
    refuses(trust, leaf, 'expired', true, notBefore.getTime() - 1);
    trusts(trust, leaf, false, notBefore.getTime());
  });

  it('bounds the trust in a vouched chain by the certificate, which is all that is known of it', async () => {
    const notAfter = new Date(Math.ceil(now / 1000) * 1000 + 60_000);
    const leaf = await leafOf(team, { notAfter });
    const trust = new ClientTrust([parsed(root)], []);
    assert.equal(trusts(trust, leaf, true), notAfter.getTime());
    refuses(trust, leaf, 'expired', true, notAfter.getTime());
  });

  it('of an authority above bounds it too', async () => {
    const short = await CertificateAuthority.create(SYSTEM, 'short', 1);
    const leaf = await leafOf(short);
    const untilMs = parsed(short).validToDate.getTime();
    const trust = new ClientTrust([parsed(short)], []);
    assert.equal(trusts(trust, leaf), untilMs);
    refuses(trust, leaf, 'expired', true, untilMs);
  });
});

describe('revocation lists', () => {
  it('revoke what they name, and bound the trust in the rest by their next update', async () => {
    const [bad, good] = await Promise.all([leafOf(root), leafOf(root)]);
    const trust = new ClientTrust([parsed(root)], [revocations(root, [bad])]);
    refuses(trust, bad, 'revoked', true);
    assert.equal(trusts(trust, good), now + HOUR_MS);
    refuses(trust, good, 'no_current_revocation_list', true, now + HOUR_MS);
  });

  it('are wanted of every authority of a chain, whatever the handshake vouches for', async () => {
    const leaf = await leafOf(department);
    const authorities = [parsed(root), parsed(department)];
    refuses(new ClientTrust(authorities, [revocations(root)]), leaf, 'no_current_revocation_list', true);
    refuses(new ClientTrust(authorities, [revocations(department)]), leaf, 'no_current_revocation_list', true);
    trusts(new ClientTrust(authorities, [revocations(root), revocations(department)]), leaf);
    refuses(new ClientTrust([parsed(root)], [revocations(root)]), leaf, 'unknown_authority', true);
  });

  it('revoke an intermediate and all below it', async () => {
    const lists = [revocations(root, [parsed(department)]), revocations(department)];
    refuses(new ClientTrust([parsed(root), parsed(department)], lists), await leafOf(department), 'revoked', true);
  });

  it('of one authority add up, and the latest next update counts', async () => {
    const [first, second, good] = await Promise.all([leafOf(root), leafOf(root), leafOf(root)]);
    const lists = [revocations(root, [first], now + 2 * HOUR_MS), revocations(root, [second], now + HOUR_MS)];
    const trust = new ClientTrust([parsed(root)], lists);
    refuses(trust, first, 'revoked');
    refuses(trust, second, 'revoked');
    assert.equal(trusts(trust, good), now + 2 * HOUR_MS);
  });

  it('without a next update do not end', async () => {
    const leaf = await leafOf(root);
    const list: Revocations = { authority: parsed(root), serials: new Set(), nextUpdateMs: undefined };
    assert.equal(trusts(new ClientTrust([parsed(root)], [list]), leaf), leaf.validToDate.getTime());
  });

  it("say nothing of another authority's certificate with the same serial number", async () => {
    const leaf = await leafOf(other);
    const lists: Revocations[] = [
      { authority: parsed(root), serials: new Set([leaf.serialNumber]), nextUpdateMs: undefined },
      revocations(other),
    ];
    trusts(new ClientTrust([parsed(root), parsed(other)], lists), leaf);
  });
});
