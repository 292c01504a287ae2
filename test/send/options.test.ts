import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createClient, sendEvents, type SendEventsOptions } from '../../lib/send/client.ts';
import { startFakeGateway } from '../../lib/send/fake-gateway.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';

const pki = await Pki.create();
const [one, other] = [await pki.producer('one'), await pki.producer('other')];

/** Asserts that both functions refuse the options with an error whose message begins so or matches. */
function assertRefused(options: object, name: 'TypeError' | 'RangeError', message: string | RegExp): void {
  const all = { url: 'https://gateway', cert: one.cert, key: one.key, ...options } as SendEventsOptions;
  for (const call of [() => sendEvents([], all), () => createClient(all)])
    assert.throws(call, (error: Error) => {
      assert.equal(error.name, name, JSON.stringify(options));
      if (typeof message === 'string') assert.ok(error.message.startsWith(message), error.message);
      else assert.match(error.message, message);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
}

it('a wrong option of a client is refused at the call, with its name', () => {
  const none = { cert: undefined, key: undefined };
  assertRefused(none, 'TypeError', 'cert, key: expected the PEM texts');
  assertRefused({ key: undefined }, 'TypeError', 'cert, key: expected');
  for (const token of ['a\nb', '']) assertRefused({ token }, 'TypeError', 'token: ');
  assertRefused({ journal: '' }, 'TypeError', 'journal: expected the path of a file');
  assertRefused({ retries: 3 }, 'TypeError', 'retries: unknown option');
  assertRefused({ concurrency: 0 }, 'RangeError', /^concurrency 0: .* 1 to 2147483647$/);
  assertRefused({ pipelining: 33 }, 'RangeError', /^pipelining 33: .* 1 to 32$/);
  assertRefused({ connections: 0 }, 'RangeError', 'connections 0: ');
  assertRefused({ tries: 1.5 }, 'RangeError', 'tries 1.5: ');
  for (const timeoutMs of [Infinity, 2 ** 31]) assertRefused({ timeoutMs }, 'RangeError', `timeoutMs ${timeoutMs}: `);
  for (const ratePerS of [0, NaN]) assertRefused({ ratePerS }, 'RangeError', `ratePerS ${ratePerS}: `);
  const most = 2 ** 31 - 1;
  const largest = { concurrency: most, pipelining: 1, tries: most, timeoutMs: most, ratePerS: 0.1 };
  sendEvents([], { url: 'http://localhost', ...largest });
});

it('a PEM text that cannot be used is refused at the call, with its option and the mistake', () => {
  const encrypted = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n';
  const publicKey = '-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n';
  const noKey = 'key: expected the text of a PEM private key without a passphrase';
  const noCertificate = 'cert: expected the text of a PEM certificate';
  for (const name of ['cert', 'ca'])
    assertRefused({ [name]: './shop.pem' }, 'TypeError', `${name}: expected PEM text, this looks like a path`);
  for (const key of [Buffer.from([0x30, 0x82, 0x01, 0x00]), encrypted, publicKey])
    assertRefused({ key }, 'TypeError', noKey);
  for (const cert of ['', one.key]) assertRefused({ cert }, 'TypeError', noCertificate);
  for (const ca of [one.cert.replaceAll(/[A-Z]/g, 'A'), one.cert + other.cert.slice(0, 200), 'garbage\n', ''])
    assertRefused({ ca }, 'TypeError', 'ca: expected the text of a PEM certificate');
  assertRefused({ key: other.key }, 'TypeError', /^cert, key: expected .* and the key that belongs to it \(ERR_/);
});

it('a client reads two authorities without a line break between them, after a byte order mark', async () => {
  const { certificate, key } = pki.server;
  const secure = await startFakeGateway({ tls: { cert: certificate, key, ca: pki.authority.certificate } });
  atEnd(() => secure.close());
  const another = (await Pki.create()).authority.certificate.trim();
  const ca = Buffer.from(`\ufeff${another}${pki.authority.certificate}`);
  const client = createClient({ url: secure.url, cert: one.cert, key: one.key, ca });
  assert.equal((await client.send({ id: 'x', type: 't' })).kind, 'accepted');
  await client.close();
});

it('a URL has a host, a port and a path before /events, and nothing else', () => {
  const { cert, key } = one;
  for (const url of ['https://gateway', 'https://[::1]:1/a/path', 'http://127.0.0.1:80', new URL('http://localhost')])
    sendEvents([], { url, cert, key });
  for (const [why, ...urls] of [
    [/expected an https URL$/, 'gateway:8443', 'nonsense', 'http://gateway', 'ftp://127.0.0.1', 'http://not-localhost'],
    [/without \/events at its end/, 'https://gateway/events', 'https://gateway/some/events/'],
    [/without a user/, 'https://user:secret@gateway', 'https://user@gateway'],
    [/without a query/, 'https://gateway?x=1', 'https://gateway#x'],
  ] as const)
    for (const url of urls) assertRefused({ url }, 'TypeError', why);
});
