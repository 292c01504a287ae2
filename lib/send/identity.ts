// Checks the producer's certificate and key before anything is sent.
import { createSecureContext } from 'node:tls';

/** PEM texts and a token. Without `ca`, Node's default authorities are trusted. An http URL needs no PEM texts. */
export interface SenderIdentity {
  readonly cert: string | Buffer | undefined;
  readonly key: string | Buffer | undefined;
  readonly ca: string | Buffer | undefined;
  readonly token: string | undefined;
}

type Pem = Omit<SenderIdentity, 'token'>;

const EXPECTED = { cert: 'CERTIFICATE', key: 'PRIVATE KEY', ca: 'CERTIFICATE' } as const;

/** Returns options for node:tls. Throws a TypeError that names the option with the mistake. */
export function tlsOptionsOf(pem: Pem): { readonly [name in keyof Pem]?: string | Buffer } {
  const given: { cert?: string | Buffer; key?: string | Buffer; ca?: string | Buffer } = {};
  for (const name of ['cert', 'key', 'ca'] as const) {
    const value: unknown = pem[name];
    if (value === undefined) continue;
    const mistake = mistakeIn(value, EXPECTED[name]);
    if (mistake !== undefined) throw new TypeError(`${name}: ${mistake}`);
    given[name] = value as string | Buffer;
  }
  // Each option is checked alone first, so that the message can name it.
  for (const name of ['cert', 'key', 'ca'] as const) {
    if (given[name] === undefined) continue;
    unusable(name, 'this is malformed', { [name]: given[name] });
  }
  unusable('cert, key', 'expected a certificate and the key that belongs to it', given);
  return given;
}

function unusable(names: string, mistake: string, options: object): void {
  try {
    createSecureContext(options);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new TypeError(`${names}: ${mistake} (${code ?? message})`, { cause });
  }
}

function mistakeIn(value: unknown, expected: string): string | undefined {
  if (typeof value !== 'string' && !(value instanceof Uint8Array)) return 'expected PEM text, a string or a Buffer';
  const text = typeof value === 'string' ? value : Buffer.from(value).toString('latin1');
  const labels = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map(([, label = '']) => label);
  if (labels.length === 0) {
    if (text.trim() === '') return 'expected PEM text, this is empty';
    // eslint-disable-next-line no-control-regex -- these characters do not occur in text
    if (/[\0-\x08]/.test(text)) return 'expected PEM text, this looks like DER';
    return /^[^\r\n]{1,4096}$/.test(text) ? 'expected PEM text, this looks like a path' : 'expected PEM text';
  }
  if (labels.some((label) => label.endsWith(expected))) {
    const encrypted = expected === 'PRIVATE KEY' && /ENCRYPTED/.test(text);
    return encrypted ? 'expected a key without a passphrase, this one is encrypted' : undefined;
  }
  return `expected a PEM ${expected.toLowerCase()}, this is a ${labels[0]?.toLowerCase()}`;
}
