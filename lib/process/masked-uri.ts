// URIs as people may see them: without what is secret in them.

import { listUri } from './list-uri.ts';

/** Takes the place of a list of hosts, where the URL class would not read one. */
const HOSTS = 'list-of-hosts';

/**
 * The value of `key` as a message shows it, in quotes: passwords and tokens in URIs are masked, and so is a URI that
 * cannot be read.
 */
export const shown = (key: string, value: string): string => JSON.stringify(maskedValue(key, value));

/** Any setting may be a URL with a password in it. */
export const maskedValue = (key: string, value: string): string =>
  key.endsWith('_URI') || (value.includes('://') && value !== maskedUri(value)) ? maskedUri(value) : value;

/** A URI without its password, query and fragment; `redis://user:***@host:6379/0`. `sqlite:<path>` holds no secret. */
export function maskedUri(value: string): string {
  if (value.startsWith('sqlite:')) return value;
  // Without an authority (`redis:user:password@host`, its slashes forgotten) the password cannot be told from the rest.
  if (!URL.canParse(value) || new URL(value).host === '') {
    const list = value.includes(',') ? listUri(value) : undefined;
    return list === undefined ? '***' : maskedUri(list.of(HOSTS)).replace(HOSTS, list.hosts.join(','));
  }
  const url = new URL(value);
  // What a `#`, `/` or `?` in a password that was not percent-encoded makes of it.
  if (isCutByPassword(url)) return `${url.protocol}//***`;
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?***';
  if (url.hash !== '') url.hash = '#***';
  return url.href;
}

/** Whether a URI has an @ behind its host: then the host is a piece of a user and password. */
export const isCutByPassword = ({ pathname, search, hash }: URL): boolean => /@/.test(pathname + search + hash);
