import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { sendEvents } from '../../lib/send/client.ts';
import { startFakeGateway } from '../../lib/send/fake-gateway.ts';
import { gatewayUrl } from '../../lib/send/identity.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';

let pki: Pki;
before(async () => {
  pki = await Pki.create();
});

describe('the options of sendEvents', () => {
  it('are refused at the call if one is wrong, with its name', () => {
    for (const [options, name, message] of [
      [{ url: 'https://g/events' }, 'TypeError', /without \/events/],
      [{ url: 'https://g' }, 'TypeError', /^cert, key: expected the PEM texts/],
      [{ url: 'https://g', cert: 'x' }, 'TypeError', /^cert, key: expected/],
      [{ token: 'a\nb' }, 'TypeError', /^token: /],
      [{ token: '' }, 'TypeError', /^token: /],
      [{ retries: 3 }, 'TypeError', /^retries: unknown option/],
      [{ concurrency: 0 }, 'RangeError', /^concurrency 0: .* 1 to 2147483647$/],
      [{ pipelining: 33 }, 'RangeError', /^pipelining 33: .* 1 to 32$/],
      [{ connections: 0 }, 'RangeError', /^connections 0: /],
      [{ tries: 1.5 }, 'RangeError', /^tries 1\.5: /],
      [{ timeoutMs: Infinity }, 'RangeError', /^timeoutMs Infinity: /],
      [{ timeoutMs: 2 ** 31 }, 'RangeError', /^timeoutMs 2147483648: /],
      [{ ratePerS: 0 }, 'RangeError', /^ratePerS 0: /],
      [{ ratePerS: NaN }, 'RangeError', /^ratePerS NaN: /],
    ] as const)
      assert.throws(() => sendEvents([], { url: 'http://localhost', ...options }), { name, message });
    const most = 2 ** 31 - 1;
    sendEvents([], {
      url: 'http://localhost',
      concurrency: most,
      pipelining: 1,
      tries: most,
      timeoutMs: most,
      ratePerS: 0.1,
    });
  });

  it('name the PEM text that cannot be used, and the mistake', async () => {
    const [one, other] = [await pki.producer('one'), await pki.producer('other')];
    const encrypted = '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n';
    const publicKey = '-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n';
    for (const [pem, message] of [
      [{ cert: '/etc/shop.pem' }, 'cert: expected PEM text, this looks like a path'],
      [{ ca: 'ca.pem' }, 'ca: expected PEM text, this looks like a path'],
      [{ key: Buffer.from([0x30, 0x82, 0x01, 0x00]) }, /^key: expected the text of a PEM private key/],
      [{ cert: '' }, 'cert: expected the text of a PEM certificate'],
      [{ cert: one.key }, /^cert: expected the text of a PEM certificate/],
      [{ key: encrypted }, 'key: expected the text of a PEM private key without a passphrase'],
      [{ key: publicKey }, 'key: expected the text of a PEM private key without a passphrase'],
      [{ ca: one.cert.replaceAll(/[A-Z]/g, 'A') }, /^ca: /],
      [{ ca: one.cert + other.cert.slice(0, 200) }, /^ca: /],
      [{ ca: 'garbage\n' }, /^ca: /],
      [{ key: other.key }, /^cert, key: expected a certificate and the key that belongs to it \(ERR_/],
    ] as const)
      assert.throws(() => sendEvents([], { url: 'https://g', cert: one.cert, key: one.key, ...pem }), {
        name: 'TypeError',
        message,
      });
  });

  it('allow two certificates without a line break between them, and a byte order mark before them', async () => {
    const { certificate, key } = pki.server;
    const secure = await startFakeGateway({ tls: { cert: certificate, key, ca: pki.authority.certificate } });
    atEnd(() => secure.close());
    const other = (await Pki.create()).authority.certificate.trim();
    const ca = Buffer.from(`\ufeff${other}${pki.authority.certificate}`);
    const { cert, key: own } = await pki.producer('one');
    const options = { url: secure.url, cert, key: own, ca };
    for await (const { kind } of sendEvents([{ id: 'x', type: 't' }], options)) assert.equal(kind, 'accepted');
    assert.equal(secure.requests, 1);
  });

  it('allow a host, a port and a path before /events in the URL, and nothing else', () => {
    for (const text of ['https://gateway', 'https://[::1]:8443/some/path', 'http://127.0.0.1:80', 'http://localhost'])
      assert.equal(gatewayUrl(text).href, new URL(text).href);
    for (const [why, ...texts] of [
      [
        'expected an https URL',
        'gateway:8443',
        'nonsense',
        'http://gateway',
        'ftp://127.0.0.1',
        'http://not-localhost',
      ],
      ['without /events at its end', 'https://gateway/events', 'https://gateway/some/events/'],
      ['without a user', 'https://user:secret@gateway', 'https://user@gateway'],
      ['without a query', 'https://gateway?x=1', 'https://gateway#x'],
    ] as const)
      for (const text of texts)
        assert.throws(
          () => gatewayUrl(text),
          (cause: Error) =>
            cause instanceof TypeError && cause.message.includes(why) && !cause.message.includes('secret'),
          text,
        );
  });
});
