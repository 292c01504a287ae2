// Parses URIs in settings, including lists of hosts. Finds mistakes in them and masks their secrets.

/** A URI with several hosts: `scheme://[user:password@]host:port,host:port/path?query`. */
interface ListUri {
  /** The scheme, including the colon. */
  readonly scheme: string;
  readonly hosts: readonly string[];
  /** Returns the same URI with only this host, so that the URL class can parse it. */
  of(host: string): string;
}

/** Parses a URI with one or more hosts. Returns undefined for anything else. */
export function listUri(text: string): ListUri | undefined {
  const match = /^([a-z][a-z0-9+.-]*:)\/\/(?:([^/?#@]*)@)?([^/?#@]+)(\/[^?#]*)?(\?[^#]*)?$/i.exec(text);
  if (match === null) return undefined;
  const [, scheme = '', user, hosts = '', path = '', query = ''] = match;
  const list = hosts.split(',');
  const of = (host: string): string => `${scheme}//${user === undefined ? '' : `${user}@`}${host}${path}${query}`;
  const good = list.every((host) => host !== '' && isUrl(of(host)));
  return good ? { scheme, hosts: list, of } : undefined;
}

const isUrl = (text: string): boolean => URL.canParse(text) && new URL(text).hostname !== '';

/** Describes a URI with one of these schemes, for messages. */
export function expectedUri(schemes: readonly string[]): string {
  const forms = schemes.map((scheme) => (scheme === SQLITE ? 'sqlite:<path>' : `${scheme}//`));
  return `expected a URI that begins with ${forms.join(' or ')}`;
}

const SQLITE = 'sqlite:';

/** Returns the mistake in a URI that must have one of `schemes`, or undefined if there is none. */
export function uriFault(value: string, schemes: readonly string[]): string | undefined {
  // Drivers stop parsing at a blank, and their errors would show the text before it, perhaps half of a password.
  if (/\s/.test(value)) return 'expected no blank: in a user, a password or a path it is written %20';
  const scheme = schemes.find((name) => value.startsWith(name));
  const cannotDecode = 'expected user, password and path to be percent-encoded: a % itself is written %25';
  // sqlite:<path> has no authority, so the URL class cannot parse every path.
  if (scheme === SQLITE && value.length > scheme.length) return isPercentEncoded([value]) ? undefined : cannotDecode;
  const url = scheme === undefined || scheme === SQLITE ? undefined : urlOf(value, scheme);
  // An unescaped `#`, `/` or `?` ends the part of a URI that contains user, password and host.
  const isCut = url === undefined ? /[#/?].*@/.test(value.slice((scheme ?? '').length + 2)) : isCutByPassword(url);
  if (scheme !== undefined && isCut)
    return 'expected user and password to be percent-encoded: # is written %23, / %2F and ? %3F';
  if (url === undefined) return isPostgres(value) && isList(value) ? ONE_HOST : expectedUri(schemes);
  if (!isPercentEncoded([url.username, url.password, url.pathname])) return cannotDecode;
  return isPostgres(value) ? postgresFault(url) : undefined;
}

const isPostgres = (uri: string): boolean => /^postgres(?:ql)?:/.test(uri);
const isList = (uri: string): boolean => (listUri(uri)?.hosts.length ?? 0) > 1;
const ONE_HOST = 'expected one host: several hosts are not supported';

/** The parameters of a PostgreSQL URI that are supported; the driver ignores names that it does not know. */
const POSTGRES_PARAMETERS = ['host', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'];
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'];

function postgresFault({ hostname, searchParams, hash }: URL): string | undefined {
  if (hostname.includes(',') || searchParams.get('host')?.includes(',') === true) return ONE_HOST;
  if (hash !== '') return 'expected no #: in a password it is written %23';
  const names = [...searchParams.keys()];
  const wrong = names.find((name, at) => !POSTGRES_PARAMETERS.includes(name) || names.indexOf(name) < at);
  if (wrong !== undefined) return `expected no ${wrong} after the ?, only ${POSTGRES_PARAMETERS.join(', ')}, each once`;
  const mode = searchParams.get('sslmode');
  if (mode !== null && !SSL_MODES.includes(mode)) return `expected sslmode to be one of ${SSL_MODES.join(', ')}`;
  if (mode === 'disable' && names.some((name) => /^ssl(?!mode)/.test(name)))
    return 'expected no certificates with sslmode=disable';
  return undefined;
}

/** True if the URI names a PostgreSQL server on another machine, without TLS. */
export function isUnencrypted(uri: string): boolean {
  if (!isPostgres(uri)) return false;
  const { hostname, searchParams } = new URL(uri);
  const host = searchParams.get('host') ?? hostname;
  const isHere = host.startsWith('/') || /^(?:|localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/.test(host);
  return !isHere && (searchParams.get('sslmode') ?? 'disable') === 'disable' && !searchParams.has('sslrootcert');
}

/** Parses the URI with only its first host if the scheme allows several. Returns undefined if it is malformed. */
function urlOf(value: string, scheme: string): URL | undefined {
  const list = /\+|^dispatcher/.test(scheme) ? listUri(value) : undefined;
  const one = list === undefined ? value : list.of(list.hosts[0] ?? '');
  return one.startsWith(`${scheme}//`) && isUrl(one) ? new URL(one) : undefined;
}

export const sqlitePath = (uri: string): string | undefined =>
  uri.startsWith(SQLITE) ? decodeURIComponent(uri.slice(SQLITE.length)) : undefined;

export const sqliteUri = (path: string): string => `${SQLITE}${path.split('/').map(encodeURIComponent).join('/')}`;

function isPercentEncoded(parts: readonly string[]): boolean {
  try {
    for (const part of parts) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** True if an @ follows the host, so the "host" is really part of a user or password that is not percent-encoded. */
const isCutByPassword = ({ pathname, search, hash }: URL): boolean => /@/.test(pathname + search + hash);

/** Returns the value of `key` in quotes, for messages. Passwords, tokens and malformed URIs are masked. */
export const shown = (key: string, value: string): string => JSON.stringify(maskedValue(key, value));

/** Masks passwords in all settings, because any of them may be a URL that contains one. */
export const maskedValue = (key: string, value: string): string =>
  key.endsWith('_URI') || (value.includes('://') && value !== maskedUri(value)) ? maskedUri(value) : value;

/** A placeholder for a list of hosts, which the URL class cannot parse. */
const HOSTS = 'list-of-hosts';

/** Masks password, query and fragment: `redis://user:***@host:6379/0`. A `sqlite:<path>` URI contains no secret. */
export function maskedUri(value: string): string {
  if (value.startsWith(SQLITE)) return value;
  if (/\s/.test(value)) return '***';
  // If the slashes are missing (`redis:user:password@host`), the password cannot be found, so the URI is masked.
  if (!URL.canParse(value) || new URL(value).host === '') {
    const list = value.includes(',') ? listUri(value) : undefined;
    return list === undefined ? '***' : maskedUri(list.of(HOSTS)).replace(HOSTS, list.hosts.join(','));
  }
  const url = new URL(value);
  if (isCutByPassword(url)) return `${url.protocol}//***`;
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?***';
  if (url.hash !== '') url.hash = '#***';
  return url.href;
}
