// Parses URIs in settings, including lists of hosts. Finds mistakes in them and masks their secrets.

/** A URI with one or more hosts: `scheme://[user:password@]host:port,host:port/path?query#fragment`. */
interface ListUri {
  readonly scheme: string;
  readonly hosts: readonly string[];
  /** Returns the same URI with only this host, so that the URL class can parse it. */
  of(host: string): string;
}

export function listUri(text: string): ListUri | undefined {
  const match = /^([a-z][a-z0-9+.-]*:)\/\/([^/?#]*@)?([^/?#@]+)([/?#].*)?$/i.exec(text);
  if (match === null) return undefined;
  const [, scheme = '', user = '', hosts = '', rest = ''] = match;
  const list = hosts.split(',');
  const of = (host: string): string => `${scheme}//${user}${host}${rest}`;
  return list.every((host) => host !== '' && isUrl(of(host))) ? { scheme, hosts: list, of } : undefined;
}

const isUrl = (text: string): boolean => URL.canParse(text) && new URL(text).hostname !== '';

export function expectedUri(schemes: readonly string[]): string {
  const forms = schemes.map((scheme) => (scheme === SQLITE ? 'sqlite:<path>' : `${scheme}//`));
  return `expected a URI that begins with ${forms.join(' or ')}`;
}

const SQLITE = 'sqlite:';

/** Returns the mistake in a URI that must have one of `schemes`, or undefined if there is none. */
export function uriFault(value: string, schemes: readonly string[]): string | undefined {
  const scheme = schemes.find((name) => value.startsWith(name));
  const isSqlite = scheme === SQLITE && value.length > scheme.length;
  // Drivers stop parsing at a blank, and their errors would show the text before it, perhaps half of a password.
  if (/\s/.test(value) || (scheme !== undefined && !isSqlite && isCut(value))) return NOT_ENCODED;
  const ports = scheme === undefined || isSqlite ? [] : portsIn(value);
  // The number may be a password without a host.
  if (ports.some((port) => port < 1 || port > 65_535)) return 'expected ports from 1 to 65535';
  const hosts = scheme === undefined || isSqlite ? undefined : listUri(value)?.hosts;
  if (hosts === undefined && !isSqlite) return expectedUri(schemes);
  try {
    decodeURIComponent(value);
  } catch {
    return NOT_ENCODED;
  }
  if (!isPostgres(value)) return undefined;
  return hosts?.length === 1 ? postgresFault(new URL(value)) : ONE_HOST;
}

/**
 * True if an @ follows the part of a URI that contains user, password and host. An unescaped `#`, `/` or `?` ends that
 * part, so it is really a part of a user or password.
 */
const isCut = (uri: string): boolean => /^[^/]*\/\/[^#/?]*[#/?].*@/.test(uri);

/** Returns the ports also of a URI that the URL class refuses because of them. */
const portsIn = (uri: string): number[] =>
  [...(/^[^/]*\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(uri)?.[1] ?? '').matchAll(/:(\d+)(?=,|$)/g)].map(([, port]) =>
    Number(port),
  );

const isPostgres = (uri: string): boolean => /^postgres(?:ql)?:/.test(uri);
const NOT_ENCODED =
  'expected user, password and path to be percent-encoded: a blank is written %20, # %23, % %25, / %2F and ? %3F';
const ONE_HOST = 'expected one host: several hosts are not supported';

/** The parameters of a PostgreSQL URI that are supported; the driver ignores names that it does not know. */
const POSTGRES_PARAMETERS = ['host', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'channel_binding'];
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'];
const BINDINGS = ['disable', 'prefer', 'require'];

function postgresFault({ searchParams, hash }: URL): string | undefined {
  if (searchParams.get('host')?.includes(',') === true) return ONE_HOST;
  if (hash !== '') return 'expected no #: in a password it is written %23';
  const names = [...searchParams.keys()];
  const wrong = names.find((name, at) => !POSTGRES_PARAMETERS.includes(name) || names.indexOf(name) < at);
  if (wrong !== undefined) return `expected no ${wrong} after the ?, only ${POSTGRES_PARAMETERS.join(', ')}, each once`;
  const mode = searchParams.get('sslmode');
  if (mode !== null && !SSL_MODES.includes(mode)) return `expected sslmode to be one of ${SSL_MODES.join(', ')}`;
  const binding = searchParams.get('channel_binding');
  if (binding !== null && !BINDINGS.includes(binding))
    return `expected channel_binding to be one of ${BINDINGS.join(', ')}`;
  if (binding === 'require' && (mode ?? 'disable') === 'disable')
    return 'expected sslmode=verify-full with channel_binding=require, because it binds the password to TLS';
  if (mode === 'disable' && names.some((name) => /^ssl(?!mode)/.test(name)))
    return 'expected no certificates with sslmode=disable';
  return undefined;
}

export function isUnencrypted(uri: string): boolean {
  if (!isPostgres(uri)) return false;
  const { hostname, searchParams } = new URL(uri);
  const host = searchParams.get('host') ?? hostname;
  const isHere = host.startsWith('/') || /^(?:|localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/.test(host);
  return !isHere && (searchParams.get('sslmode') ?? 'disable') === 'disable' && !searchParams.has('sslrootcert');
}

/** True if a session proves the password for this TLS connection only, if the server can do that. */
export const bindsChannel = (uri: string): boolean =>
  ['prefer', 'require'].includes(new URL(uri).searchParams.get('channel_binding') ?? '');

export const postgresFiles = (uri: string): readonly (readonly [name: string, path: string])[] =>
  isPostgres(uri) ? [...new URL(uri).searchParams].filter(([name]) => /^ssl(?!mode)/.test(name)) : [];

export const sqlitePath = (uri: string): string | undefined =>
  uri.startsWith(SQLITE) ? decodeURIComponent(uri.slice(SQLITE.length)) : undefined;

export const sqliteUri = (path: string): string => `${SQLITE}${path.split('/').map(encodeURIComponent).join('/')}`;

export const quotedValue = (key: string, value: string): string => JSON.stringify(maskedValue(key, value));

/** Masks passwords in all settings, because any of them may be a URL that contains one. */
export const maskedValue = (key: string, value: string): string =>
  key.endsWith('_URI') || value.includes('://') ? maskedUri(value) : value;

/** Masks password, query and fragment: `redis://user:***@host:6379/0`. A `sqlite:<path>` URI contains no secret. */
export function maskedUri(value: string): string {
  if (value.startsWith(SQLITE)) return value;
  if (/\s/.test(value)) return '***';
  if (isCut(value)) return `${/^[a-z+]+:/i.exec(value)?.[0] ?? ''}//***`;
  // If a part is missing (`redis:user:password@host`), the password cannot be found, so the URI is masked.
  if (listUri(value) === undefined) return '***';
  const masked = value.replace(/^([^:]+:\/\/[^/?#:]*):[^/?#]+@/, '$1:***@');
  return masked.replace(/\?[^#]+/, '?***').replace(/#.+/, '#***');
}
