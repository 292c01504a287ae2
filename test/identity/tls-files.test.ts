// Real files of openssl: each set is refused at load, or its producers are accepted.
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { describe, it } from 'node:test';
import { loadTlsMaterial, type TlsFiles } from '../../lib/identity/tls-material.ts';
import { handshake } from '../support/handshake.ts';
import { OpenSsl } from '../support/openssl.ts';

const made = new OpenSsl();
const CLIENT = 'extendedKeyUsage=clientAuth\nsubjectAltName=URI:spiffe://shop/web';
const AUTHORITY = 'basicConstraints=critical,CA:true\nsubjectKeyIdentifier=hash';
made.root('root', '/O=Shop/CN=root');
made.root('other');
made.root('server', '/CN=localhost');
made.issue('shop', 'root', CLIENT);
made.issue('web', 'other', CLIENT);
const [root, other] = [made.text('root.pem'), made.text('other.pem')];

let count = 0;
function files(authorities: string, lists?: string, server = 'server'): TlsFiles {
  count += 1;
  const clientCrl = lists === undefined ? {} : { clientCrl: made.write(`${count}.crl`, lists) };
  const [cert, key] = [made.path(`${server}.pem`), made.path(`${server}.key`)];
  return { cert, key, clientCa: made.write(`${count}.pem`, authorities), ...clientCrl };
}

/** Loads the files, and returns the material's warnings after OpenSSL accepted each of the producers. */
async function assertAccepted(given: TlsFiles, ...producers: readonly string[]): Promise<readonly string[]> {
  const { context, warnings, expired } = await loadTlsMaterial(given, Date.now());
  assert.equal(expired, undefined);
  const trusting = context as { cert: string; key: string; ca: string; crl?: string[] };
  for (const name of producers) {
    const client = { cert: made.text(`${name}.pem`), key: made.text(`${name}.key`) };
    assert.equal((await handshake(client, trusting)).fault, undefined, name);
  }
  return warnings;
}

const assertRefused = (
  given: TlsFiles,
  key: 'CERT' | 'KEY' | 'CLIENT_CA' | 'CLIENT_CRL',
  ...words: readonly string[]
) =>
  assert.rejects(loadTlsMaterial(given, Date.now()), ({ exitCode, message }: Error & { exitCode?: number }) => {
    assert.equal(exitCode, 2);
    assert.ok(message.startsWith(`INGEST_TLS_${key}=`), message);
    for (const word of words) assert.ok(message.includes(word), message);
    return true;
  });

describe('authorities of one name', () => {
  made.root('renewed', '/O=Shop/CN=root');
  made.issue('after', 'renewed', CLIENT);
  const both = root + made.text('renewed.pem');

  it('are accepted with their producers if certificates and lists identify the key', async () => {
    const warnings = await assertAccepted(files(both), 'shop', 'after');
    assert.match(warnings.join(), /two authorities are named/);
    await assertAccepted(files(both, made.list('renewed') + made.list('root')), 'shop', 'after');
  });

  it('are refused, naming the list, if the lists do not identify the key', async () => {
    const [first, second] = [made.list('root', ''), made.list('renewed', '')];
    for (const lists of [first + second, second + first])
      await assertRefused(files(both, lists), 'CLIENT_CRL', 'CN=root', 'CRL_SIGNATURE_FAILURE');
    await assertAccepted(files(both, made.list('root') + second), 'shop', 'after');
  });

  it('are refused if their certificates do not identify the key, unless only one is current', async () => {
    const without = ['-addext', 'subjectKeyIdentifier=none'];
    const [one, two] = [made.root('one', '/CN=same', ...without), made.root('two', '/CN=same', ...without)];
    await assertRefused(files(one + two), 'CLIENT_CA', 'CN=same', 'CERT_SIGNATURE_FAILURE');
    const old = made.dated('old', '/CN=same', [2020, 2021], AUTHORITY.replace('hash', 'none'));
    made.issue('current', 'two', CLIENT);
    const warnings = await assertAccepted(files(old + two), 'current');
    assert.match(warnings.join(), /CN=same.*CERT_HAS_EXPIRED/);
  });
});

describe('a revocation list is used, and belongs to its authority only, if it is signed with a key of the kind', () => {
  const PSS = ['-sigopt', 'rsa_padding_mode:pss'];
  for (const [kind, key, list] of [
    ['RSA', ['-newkey', 'rsa:2048'], []],
    ['RSA with PSS', ['-newkey', 'rsa:2048'], PSS],
    ['P-384', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384'], []],
    ['Ed25519', ['-newkey', 'ed25519'], []],
  ] as const)
    it(kind, async () => {
      const authorities = made.root('kind', '/CN=kind', ...key);
      const namesake = made.root('namesake', '/CN=kind', ...key);
      made.issue('good', 'kind', CLIENT);
      made.issue('gone', 'kind', CLIENT);
      const lists = made.list('kind', undefined, ['gone'], list);
      const given = files(authorities, lists);
      await assertAccepted(given, 'good');
      const { trust } = await loadTlsMaterial(given, Date.now());
      const untilMs = (name: string) => trust.untilMs(new X509Certificate(made.text(`${name}.pem`)), Date.now());
      assert.deepEqual([(await untilMs('good')) > Date.now(), await untilMs('gone')], [true, 0]);
      await assertRefused(files(namesake, lists), 'CLIENT_CRL', 'signed by no certificate');
    });
});

it('a revocation list that OpenSSL cannot use is refused, naming the extension', async () => {
  const POINT = 'issuing distribution point (2.5.29.28)';
  for (const [name, extension] of [
    ['delta CRL indicator (2.5.29.27)', '2.5.29.27=critical,ASN1:INTEGER:1'],
    ['delta CRL indicator (2.5.29.27)', '2.5.29.27=ASN1:INTEGER:1'],
    [POINT, 'issuingDistributionPoint=critical,@i\n[i]\nonlyuser=TRUE'],
    [POINT, 'issuingDistributionPoint=critical,@i\n[i]\nonlyCA=TRUE'],
    [POINT, 'issuingDistributionPoint=critical,@i\n[i]\nindirectCRL=TRUE'],
    [POINT, 'issuingDistributionPoint=@i\n[i]\nfullname=URI:http://ca/1.crl'],
    [POINT, 'issuingDistributionPoint=critical,@i\n[i]\nonlysomereasons=keyCompromise'],
    ['1.2.3.4', '1.2.3.4=critical,ASN1:NULL'],
    ['2.5.29.20', '2.5.29.20=critical,ASN1:INTEGER:7'],
  ] as const)
    await assertRefused(files(root, made.list('root', extension)), 'CLIENT_CRL', name, 'CN=root');
  for (const extension of ['1.2.3.4=ASN1:NULL', 'authorityKeyIdentifier=keyid'])
    await assertAccepted(files(root, made.list('root', extension)), 'shop');
  const ofOther = made.list('root', '2.5.29.35=ASN1:SEQUENCE:k\n[k]\nid=IMPLICIT:0,FORMAT:HEX,OCTETSTRING:00112233');
  await assertRefused(files(root, ofOther), 'CLIENT_CRL', 'CN=root');
});

describe('PEM files', () => {
  it('may be joined without a line break, and may begin with a byte order mark', async () => {
    const [joined, lists] = [root.trim() + other.trim(), made.list('root').trim() + made.list('other').trim()];
    await assertAccepted(files(joined), 'shop', 'web');
    await assertAccepted(files(joined, lists), 'shop', 'web');
    await assertAccepted(files(`\uFEFF${joined}`, `\uFEFF${lists}`), 'shop', 'web');
    made.write('chain.pem', `\uFEFF${made.text('server.pem').trim()}${root.trim()}`);
    made.write('chain.key', `\uFEFF${made.text('server.key').replaceAll('\n', '\r\n')}`);
    await assertAccepted(files(joined, lists, 'chain'), 'shop', 'web');
  });

  it('are refused if a part is cut off anywhere or malformed', async () => {
    const lists = made.list('root') + made.list('other');
    for (const text of [
      root + other.slice(0, other.length / 2),
      other.slice(0, other.length / 2) + root,
      root + other.slice(other.length / 2),
      root + other.slice(0, -8),
      root + other.replace('-----BEGIN', '----BEGIN').replace('-----END', '----END'),
      root + other.slice(0, 200) + other.slice(300),
    ])
      await assertRefused(files(text), 'CLIENT_CA');
    await assertRefused(files(root + other, lists.slice(0, -200)), 'CLIENT_CRL');
    await assertRefused(files(root, '-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n'), 'CLIENT_CRL');
    made.write('cut.pem', `${made.text('server.pem')}${root.slice(0, 300)}`);
    made.write('cut.key', made.text('server.key'));
    await assertRefused(files(root, undefined, 'cut'), 'CERT');
  });
});

describe('damage that OpenSSL finds only in a handshake is refused:', () => {
  const damaged = (pem: string, from: string, to: string): string => {
    const [, head = '', body = '', tail = ''] = /^(.*?-----\n)(.*)(-----END.*)$/s.exec(pem) ?? [];
    const hex = Buffer.from(body, 'base64').toString('hex');
    assert.ok(hex.includes(from));
    return `${head}${Buffer.from(hex.replace(from, to), 'hex').toString('base64')}\n${tail}`;
  };

  it('a private key that signs wrongly', async () => {
    const { d = '' } = createPrivateKey(made.text('server.key')).export({ format: 'jwk' });
    const scalar = Buffer.from(d, 'base64url').toString('hex');
    made.write('damaged.pem', made.text('server.pem'));
    made.write('damaged.key', damaged(made.text('server.key'), scalar, `01${scalar.slice(2)}`));
    await assertRefused(files(root, undefined, 'damaged'), 'CERT', 'SIGNATURE');
  });

  it('an authority with a cut extension', () =>
    assertRefused(files(other + damaged(root, '0603551d0e04160414', '0603551d0e0416047f')), 'CLIENT_CA'));
});

it('a server certificate that clients would refuse is refused, in the chain too', async () => {
  made.dated('later', '/CN=localhost', [2099, 2100], 'subjectAltName=DNS:localhost');
  await assertRefused(files(root, undefined, 'later'), 'CERT', '2099-01-01');
  made.write('long.pem', made.text('server.pem') + made.text('later.pem'));
  made.write('long.key', made.text('server.key'));
  await assertRefused(files(root, undefined, 'long'), 'CERT', '2099-01-01');
  // A key on such a curve crashes clients that run on node.
  made.root('odd-curve', '/CN=odd curve', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:brainpoolP256r1');
  await assertRefused(files(root, undefined, 'odd-curve'), 'CERT', 'brainpoolP256r1', 'CN=odd curve');
  made.write('odd-chain.pem', made.text('server.pem') + made.text('odd-curve.pem'));
  made.write('odd-chain.key', made.text('server.key'));
  await assertRefused(files(root, undefined, 'odd-chain'), 'CERT', 'brainpoolP256r1');
  made.root('mail', '/CN=localhost', '-addext', 'extendedKeyUsage=clientAuth');
  await assertRefused(files(root, undefined, 'mail'), 'CERT', 'INVALID_PURPOSE');
});

describe('authorities', () => {
  it('are refused if OpenSSL would refuse all of their producers', async () => {
    made.issue('department', 'root', AUTHORITY);
    made.root('weak', '/CN=weak', '-newkey', 'rsa:1024');
    made.root('servers', '/CN=servers', '-addext', 'extendedKeyUsage=serverAuth');
    made.root('unsigning', '/CN=unsigning', '-addext', 'keyUsage=critical,digitalSignature');
    made.root('odd', '/CN=odd', '-addext', '1.2.3.4=critical,ASN1:NULL');
    for (const name of ['department', 'weak', 'servers', 'unsigning', 'odd'])
      await assertRefused(files(other + made.text(`${name}.pem`)), 'CLIENT_CA');
  });

  it('are accepted with their intermediates, name constraints, version 1, and as pinned certificates', async () => {
    made.issue('team', 'root', AUTHORITY);
    made.issue('member', 'team', CLIENT);
    await assertAccepted(files(made.text('team.pem') + root, made.list('root') + made.list('team')), 'member', 'shop');
    made.root('narrow', '/CN=narrow', '-addext', 'nameConstraints=critical,permitted;URI:shop');
    made.issue('narrowed', 'narrow', CLIENT);
    await assertAccepted(files(made.text('narrow.pem')), 'narrowed');
    made.root('pinned', '/CN=pinned', '-addext', 'basicConstraints=critical,CA:false');
    await assertAccepted(files(root + made.text('pinned.pem')), 'pinned', 'shop');
    made.run('req', '-new', '-key', 'root.key', '-subj', '/CN=v1', '-out', 'v1.csr');
    made.run('x509', '-req', '-in', 'v1.csr', '-signkey', 'root.key', '-out', 'v1.pem');
    made.write('v1.key', made.text('root.key'));
    made.issue('old-fashioned', 'v1', CLIENT);
    await assertAccepted(files(made.text('v1.pem'), made.list('v1', '')), 'old-fashioned');
  });

  it('are accepted without a subject, and named by their serial number', async () => {
    made.root('nameless', '/');
    made.issue('of-nameless', 'nameless', CLIENT);
    await assertAccepted(files(made.text('nameless.pem')), 'of-nameless');
    await assertAccepted(files(root + made.text('nameless.pem'), made.list('root') + made.list('nameless')), 'shop');
    made.root('nameless-weak', '/', '-addext', 'keyUsage=critical,digitalSignature');
    const { serialNumber } = new X509Certificate(made.text('nameless-weak.pem'));
    await assertRefused(files(root + made.text('nameless-weak.pem')), 'CLIENT_CA', serialNumber);
  });

  it('are accepted in any order if one is cross-signed, and the missing root of others is named', async () => {
    made.run('req', '-new', '-key', 'root.key', '-subj', '/O=Shop/CN=root', '-out', 'crossed.csr');
    made.write('crossed.ext', `${AUTHORITY}\nauthorityKeyIdentifier=keyid`);
    const by = '-CA other.pem -CAkey other.key -CAcreateserial -days 400 -extfile crossed.ext'.split(' ');
    made.run('x509', '-req', '-in', 'crossed.csr', ...by, '-out', 'crossed.pem');
    const crossed = made.text('crossed.pem');
    for (const both of [crossed + root, root + crossed]) {
      await assertAccepted(files(both), 'shop');
      await assertAccepted(files(both, made.list('root')), 'shop');
    }
    await assertAccepted(files(crossed + other), 'shop', 'web');
    made.issue('middle', 'root', AUTHORITY);
    made.issue('lower', 'middle', AUTHORITY);
    const lacking = made.text('lower.pem') + made.text('middle.pem');
    for (const [authorities, issuer] of [
      [crossed, 'CN=other'],
      [made.text('middle.pem') + other, 'O=Shop, CN=root'],
      [lacking, 'O=Shop, CN=root'],
    ] as const)
      await assertRefused(files(authorities), 'CLIENT_CA', `add its root (the issuer "${issuer}" is missing)`);
    await assertAccepted(files(lacking + root), 'shop');
  });

  it('that have expired are a warning beside one that has not, and the list of a revoked one is used', async () => {
    const past = made.dated('past', '/CN=past', [2020, 2021], AUTHORITY);
    assert.match((await assertAccepted(files(past + root), 'shop')).join(), /CN=past.*CERT_HAS_EXPIRED/);
    await assertAccepted(files(root + past, made.list('root')), 'shop');
    const { expired } = await loadTlsMaterial(files(past), Date.now());
    assert.match(expired ?? '', /CN=past/);
    made.issue('bad', 'root', AUTHORITY);
    const lists = made.list('root', '', ['bad']) + made.list('bad', '');
    assert.match(
      (await assertAccepted(files(root + made.text('bad.pem'), lists), 'shop')).join(),
      /CN=bad.*CERT_REVOKED/,
    );
  });
});
