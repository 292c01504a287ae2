// URIs in settings: parsing lists of hosts, finding mistakes, and masking secrets.

/** A URI of several hosts, `scheme://[user:password@]host:port,host:port/path?query`. */
export interface ListUri {
  /** With its colon. */
  readonly scheme: string;
  readonly hosts: readonly string[];
  /** The same URI with this host alone, which the URL class can read. */
  of(host: string): string;
}

/** The parts of a URI with one or several hosts; undefined for anything else. */
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

/** The form of a URI with one of these schemes, for messages. */
export function expectedUri(schemes: readonly string[]): string {
  const forms = schemes.map((scheme) => (scheme === SQLITE ? 'sqlite:<path>' : `${scheme}//`));
  return `expected a URI that begins with ${forms.join(' or ')}`;
}

const SQLITE = 'sqlite:';

/** The mistake in a URI that must have one of `schemes`; undefined if it has none. */
export function uriFault(value: string, schemes: readonly string[]): string | undefined {
  // Fact: drivers end a URI at a blank, and their error would show the part before it, perhaps half of a password.
  if (/\s/.test(value)) return 'expected no blank: in a user, a password or a path it is written %20';
  const scheme = schemes.find((name) => value.startsWith(name));
  const cannotDecode = 'expected user, password and path to be percent-encoded: a % itself is written %25';
  // sqlite:<path> has no authority, so the URL class cannot read every path.
  if (scheme === SQLITE && value.length > scheme.length) return isPercentEncoded([value]) ? undefined : cannotDecode;
  const url = scheme === undefined || scheme === SQLITE ? undefined : urlOf(value, scheme);
  // Fact: a `#`, `/` or `?` ends the part of a URI that holds user, password and host.
  const isCut = url === undefined ? /[#/?].*@/.test(value.slice((scheme ?? '').length + 2)) : isCutByPassword(url);
  if (scheme !== undefined && isCut)
    return 'expected user and password to be percent-encoded: # is written %23, / %2F and ? %3F';
  if (url !== undefined) return isPercentEncoded([url.username, url.password, url.pathname]) ? undefined : cannotDecode;
  const missing = missingScheme(value, schemes);
  return `${missing === undefined ? '' : `${missing}// is missing before the host: `}${expectedUri(schemes)}`;
}

/** The URI, with the first of its hosts if its scheme allows several. */
function urlOf(value: string, scheme: string): URL | undefined {
  const list = /\+|^dispatcher/.test(scheme) ? listUri(value) : undefined;
  const one = list === undefined ? value : list.of(list.hosts[0] ?? '');
  return one.startsWith(`${scheme}//`) && isUrl(one) ? new URL(one) : undefined;
}

/** The path of a `sqlite:` URI; undefined for any other URI. */
export const sqlitePath = (uri: string): string | undefined =>
  uri.startsWith(SQLITE) ? decodeURIComponent(uri.slice(SQLITE.length)) : undefined;

function isPercentEncoded(parts: readonly string[]): boolean {
  try {
    for (const part of parts) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** The scheme that is missing from `host:port` or `user:password@host`; undefined for anything else. */
function missingScheme(value: string, schemes: readonly string[]): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(value) || !/@|:\d{1,5}(?:\/|$)/.test(value)) return undefined;
  return schemes.find((scheme) => scheme !== SQLITE && isUrl(`${scheme}//${value}`));
}

/** True if an @ follows the host. Then the "host" is part of a user or password that was not percent-encoded. */
const isCutByPassword = ({ pathname, search, hash }: URL): boolean => /@/.test(pathname + search + hash);

/** The value of `key` for messages, in quotes. Passwords, tokens and malformed URIs are masked. */
export const shown = (key: string, value: string): string => JSON.stringify(maskedValue(key, value));

/** Any setting may be a URL with a password in it. */
export const maskedValue = (key: string, value: string): string =>
  key.endsWith('_URI') || (value.includes('://') && value !== maskedUri(value)) ? maskedUri(value) : value;

/** Replaces a list of hosts, which the URL class cannot parse. */
const HOSTS = 'list-of-hosts';

/** A URI without its password, query and fragment: `redis://user:***@host:6379/0`. `sqlite:<path>` holds no secret. */
export function maskedUri(value: string): string {
  if (value.startsWith(SQLITE)) return value;
  if (/\s/.test(value)) return '***';
  // Without an authority (`redis:user:password@host`, its slashes forgotten) the password cannot be found.
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
