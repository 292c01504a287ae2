// Checks the gateway's URL and the producer's certificate and key before anything is sent.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';

export type Pem = string | Buffer;

/** A function is called for each connection, so that renewed files and tokens are read again. */
export interface SenderIdentity {
  /** The PEM texts of the producer's certificate and key, which are required for https. */
  readonly cert?: Pem | (() => Pem) | undefined;
  readonly key?: Pem | (() => Pem) | undefined;
  /** The PEM text of the authority that signed the gateway's certificate. By default, Node's authorities are used. */
  readonly ca?: Pem | (() => Pem) | undefined;
  /** A bearer token, if the gateway requires one. */
  readonly token?: string | (() => string) | undefined;
}

type Pems = { readonly [name in 'cert' | 'key' | 'ca']?: Pem | (() => Pem) | undefined };

const EXPECTED = {
  cert: 'the text of a PEM certificate',
  key: 'the text of a PEM private key without a passphrase',
  ca: 'the text of a PEM certificate',
};

/** Returns options for node:tls. Throws a TypeError that names the option with the mistake. */
export function tlsOptionsOf(pem: Pems): { readonly [name in keyof Pems]?: string } {
  const texts: { cert?: string; key?: string; ca?: string } = {};
  // Each option is checked alone first, so that the message can name it.
  for (const name of ['cert', 'key', 'ca'] as const) {
    if (pem[name] === undefined) continue;
    const value = valueOf(name, pem[name]);
    const mistake = `expected ${EXPECTED[name]}`;
    const text = (value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value))
      .replace(/^(\ufeff|\u00ef\u00bb\u00bf)/, '')
      .replaceAll(/-----(?=-----BEGIN )/g, '-----\n');
    // OpenSSL ignores an empty text, and everything after the first certificate that it cannot read. Deno ignores a
    // key that it cannot use.
    const blocks = text.match(/-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----[^]*?(?=-----BEGIN |$)/g) ?? [];
    const isKey = text.includes('PRIVATE KEY-----') && !text.includes('ENCRYPTED');
    if (name === 'key' ? !isKey : blocks.length === 0) {
      const isPath = typeof value === 'string' && /^[^\r\n]+$/.test(value) && !value.includes('-----');
      throw new TypeError(`${name}: ${isPath ? 'expected PEM text, this looks like a path' : mistake}`);
    }
    if (name === 'key') assertUsable(name, mistake, () => createPrivateKey(text));
    else for (const block of blocks) assertUsable(name, mistake, () => new X509Certificate(block));
    texts[name] = text;
  }
  assertUsable('cert, key', 'expected a certificate and the key that belongs to it', () => createSecureContext(texts));
  return texts;
}

function valueOf<V>(name: string, source: V | (() => V)): V {
  const value = typeof source === 'function' ? (source as () => V)() : source;
  if (!(value instanceof Promise)) return value;
  value.catch(() => undefined); // An unhandled rejection would end the process.
  throw new TypeError(`${name}: expected a function that returns the text itself, found one that returns a promise`);
}

/** Returns the header field of a token. Throws a TypeError for a token that would be more than one. */
export function authorizationOf(token: SenderIdentity['token']): string {
  if (token === undefined) return '';
  const value: unknown = valueOf('token', token);
  if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value))
    throw new TypeError('token: expected visible ASCII characters');
  return `Authorization: Bearer ${value}\r\n`;
}

function assertUsable(names: string, mistake: string, use: () => unknown): void {
  try {
    use();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new TypeError(`${names}: ${mistake} (${code ?? message})`, { cause });
  }
}

/**
 * Parses the URL of a gateway, or an `http` URL of this machine for tests. Throws a TypeError that names the mistake.
 */
export function gatewayUrl(value: string | URL): URL {
  if (!URL.canParse(String(value))) throw new TypeError(`${String(value)}: expected an https URL`);
  const url = new URL(value);
  const shown = `${url.protocol}//${url.host}${url.pathname}`;
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && local))
    throw new TypeError(`${shown}: expected an https URL`);
  const surplus =
    (url.username + url.password !== '' && 'a user') ||
    (url.search + url.hash !== '' && 'a query or a fragment') ||
    (/\/events\/?$/.test(url.pathname) && '/events at its end, which is added');
  if (surplus !== false) throw new TypeError(`${shown}: expected a URL without ${surplus}`);
  return url;
}
