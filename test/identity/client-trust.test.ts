import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { CertificateAuthority, type IssueOptions } from '../support/certificate-authority.ts';
import { ClientTrust, type Revocations } from '../../lib/identity/client-trust.ts';

const HOUR_MS = 3_600_000;
const now = Date.now();
const root = new CertificateAuthority('root');
const namesake = new CertificateAuthority('root');
const other = new CertificateAuthority('other root');
const department = await root.intermediate('department');
const team = await department.intermediate('team');

const parsed = ({ certificate }: { readonly certificate: string }): X509Certificate => new X509Certificate(certificate);

async function leafOf(authority: CertificateAuthority, more: Partial<IssueOptions> = {}): Promise<X509Certificate> {
  return parsed(await authority.issue({ commonName: 'leaf', ...more }));
}

function trusts(trust: ClientTrust, leaf: X509Certificate, atMs = now): number {
  const untilMs = trust.untilMs(leaf, trust, atMs);
  assert.ok(untilMs > atMs, String(untilMs));
  return untilMs;
}

function refuses(trust: ClientTrust, leaf: X509Certificate, atMs = now): void {
  assert.ok(trust.untilMs(leaf, trust, atMs) <= atMs);
}

const keeps = (trust: ClientTrust, leaf: X509Certificate, earlier: ClientTrust): boolean =>
  trust.untilMs(leaf, earlier, now) > now;

const revocations = (
  authority: CertificateAuthority,
  leaves: readonly X509Certificate[] = [],
  nextUpdateMs = now + HOUR_MS,
): Revocations => ({
  authority: parsed(authority),
  serials: new Set(leaves.map(({ serialNumber }) => serialNumber)),
  nextUpdateMs,
});

describe('a client certificate', () => {
  it('with a chain to a configured root is trusted until it expires', async () => {
    const notAfter = new Date(Math.ceil(now / 1000) * 1000 + HOUR_MS);
    const leaf = await leafOf(root, { notAfter });
    assert.equal(trusts(new ClientTrust([parsed(other), parsed(root)], []), leaf), notAfter.getTime());
  });

  it('with configured intermediates is trusted, in any order of the file', async () => {
    const leaf = await leafOf(team);
    const authorities = [parsed(team), parsed(root), parsed(department)];
    trusts(new ClientTrust(authorities, []), leaf);
    trusts(new ClientTrust(authorities.toReversed(), []), leaf);
  });

  it('with an intermediate that the files lack is trusted until it expires, because the handshake accepted it', async () => {
    const leaf = await leafOf(team);
    const trust = new ClientTrust([parsed(root), parsed(team)], []);
    const endMs = Math.min(...[leaf, parsed(team)].map(({ validToDate }) => validToDate.getTime()));
    assert.equal(trusts(trust, leaf), endMs);
    const lists = [revocations(root), revocations(team)];
    refuses(new ClientTrust([parsed(root), parsed(team)], lists), leaf);
  });

  it('of an authority with a renewed certificate is trusted, with or without the expired one in the file', async () => {
    const ended = new X509Certificate(root.again({ notAfter: new Date(now - HOUR_MS) }));
    const leaf = await leafOf(root);
    trusts(new ClientTrust([ended, parsed(root)], []), leaf);
    trusts(new ClientTrust([parsed(root), ended], []), leaf);
    refuses(new ClientTrust([ended], []), leaf);
  });
});

describe('the verdict on a certificate over time', () => {
  it('is expired outside the validity of the certificate, even without a revocation list', async () => {
    const [from, to] = [1, 2].map((minutes) => new Date(Math.ceil(now / 1000) * 1000 + minutes * 60_000)) as [
      Date,
      Date,
    ];
    const leaf = await leafOf(root, { notBefore: from, notAfter: to });
    const trust = new ClientTrust([parsed(root)], []);
    for (const atMs of [from.getTime(), to.getTime() - 1]) trusts(trust, leaf, atMs);
    for (const atMs of [from.getTime() - 1, to.getTime(), to.getTime() + HOUR_MS]) refuses(trust, leaf, atMs);
  });

  it('changes to expired when an authority of its chain expires', async () => {
    const short = new CertificateAuthority('short', 1);
    const leaf = await leafOf(short);
    const untilMs = parsed(short).validToDate.getTime();
    const trust = new ClientTrust([parsed(short)], []);
    assert.equal(trusts(trust, leaf), untilMs);
    refuses(trust, leaf, untilMs);
  });
});

describe('revocation lists', () => {
  it('revoke the certificates that they name, and bound the trust in others by their next update', async () => {
    const [bad, good] = await Promise.all([leafOf(root), leafOf(root)]);
    const trust = new ClientTrust([parsed(root)], [revocations(root, [bad])]);
    refuses(trust, bad);
    assert.equal(trusts(trust, good), now + HOUR_MS);
    refuses(trust, good, now + HOUR_MS);
  });

  it('are required for every authority of a chain', async () => {
    const leaf = await leafOf(department);
    const authorities = [parsed(root), parsed(department)];
    refuses(new ClientTrust(authorities, [revocations(root)]), leaf);
    refuses(new ClientTrust(authorities, [revocations(department)]), leaf);
    trusts(new ClientTrust(authorities, [revocations(root), revocations(department)]), leaf);
    refuses(new ClientTrust([parsed(root)], [revocations(root)]), leaf);
  });

  it('that revoke an intermediate revoke its clients too', async () => {
    const lists = [revocations(root, [parsed(department)]), revocations(department)];
    refuses(new ClientTrust([parsed(root), parsed(department)], lists), await leafOf(department));
  });

  it('of one authority are combined, with the latest next update', async () => {
    const [first, second, good] = await Promise.all([leafOf(root), leafOf(root), leafOf(root)]);
    const lists = [revocations(root, [first], now + 2 * HOUR_MS), revocations(root, [second], now + HOUR_MS)];
    const trust = new ClientTrust([parsed(root)], lists);
    refuses(trust, first);
    refuses(trust, second);
    assert.equal(trusts(trust, good), now + 2 * HOUR_MS);
  });

  it('without a next update never expire', async () => {
    const leaf = await leafOf(root);
    const list: Revocations = { authority: parsed(root), serials: new Set(), nextUpdateMs: Number.POSITIVE_INFINITY };
    assert.equal(trusts(new ClientTrust([parsed(root)], [list]), leaf), leaf.validToDate.getTime());
  });

  it("do not apply to another authority's certificate with the same serial number", async () => {
    const leaf = await leafOf(other);
    const lists: Revocations[] = [
      { authority: parsed(root), serials: new Set([leaf.serialNumber]), nextUpdateMs: Number.POSITIVE_INFINITY },
      revocations(other),
    ];
    trusts(new ClientTrust([parsed(root), parsed(other)], lists), leaf);
  });
});

describe('new trust material', () => {
  const trustOf = (
    authorities: readonly { readonly certificate: string }[],
    lists: readonly Revocations[] = [],
  ): ClientTrust => new ClientTrust(authorities.map(parsed), lists);

  it('keeps a connection if it contains all authorities of its chain byte for byte', async () => {
    const leaf = await leafOf(department);
    const earlier = trustOf([root, department, other]);
    assert.ok(keeps(trustOf([root, department]), leaf, earlier));
    assert.ok(keeps(trustOf([department, namesake, root, team]), leaf, earlier));
    assert.ok(!keeps(trustOf([root]), leaf, earlier), 'the intermediate is gone');
    assert.ok(!keeps(trustOf([department]), leaf, earlier), 'the root is gone');
    const again = { certificate: root.again() };
    assert.ok(!keeps(trustOf([again, department]), leaf, earlier), 'the root was issued again');
  });

  it('closes a connection if a list of the issuer revokes its certificate or an intermediate', async () => {
    const [bad, good] = await Promise.all([leafOf(department), leafOf(department)]);
    const earlier = trustOf([root, department], [revocations(root), revocations(department)]);
    const listed = (ofRoot: X509Certificate[], ofDepartment: X509Certificate[]): ClientTrust =>
      trustOf([root, department], [revocations(root, ofRoot), revocations(department, ofDepartment)]);
    assert.ok(keeps(listed([], [bad]), good, earlier));
    assert.ok(!keeps(listed([], [bad]), bad, earlier));
    assert.ok(keeps(listed([bad], []), bad, earlier), "another authority's serial number");
    assert.ok(!keeps(listed([parsed(department)], []), good, earlier));
  });

  it('keeps a connection with an intermediate that only the client has if the authorities are the same', async () => {
    const leaf = await leafOf(department);
    const earlier = trustOf([root]);
    assert.ok(keeps(trustOf([root]), leaf, earlier));
    assert.ok(!keeps(trustOf([root, other]), leaf, earlier));
    assert.ok(!keeps(trustOf([other]), leaf, earlier));
    assert.ok(!keeps(trustOf([root], [revocations(root)]), leaf, earlier), 'the intermediate has no list');
  });

  it('keeps a connection with several possible chains only if it keeps all that have not expired', async () => {
    const again = { certificate: root.again() };
    const ended = { certificate: root.again({ notAfter: new Date(now - HOUR_MS) }) };
    const leaf = await leafOf(root);
    assert.ok(keeps(trustOf([root, again]), leaf, trustOf([root, again])));
    assert.ok(!keeps(trustOf([root]), leaf, trustOf([root, again])));
    assert.ok(keeps(trustOf([root]), leaf, trustOf([root, ended])));
  });

  it('keeps a client with a self-signed certificate only while that is configured', () => {
    assert.ok(keeps(trustOf([root, other]), parsed(root), trustOf([root])));
    assert.ok(!keeps(trustOf([other]), parsed(root), trustOf([root])));
  });
});
