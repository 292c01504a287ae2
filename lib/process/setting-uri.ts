// What is right or wrong with the text of a setting that is a URI. Pure: nothing is resolved and nothing is opened.
import { listUri } from './list-uri.ts';

/** Whether the parts that drivers decode can be decoded. */
export function isPercentEncoded({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** The URI, with the first of its hosts if its scheme takes several. */
export function urlOf(value: string, scheme: string): URL | undefined {
  const list = /\+|^dispatcher/.test(scheme) ? listUri(value) : undefined;
  const one = list === undefined ? value : list.of(list.hosts[0] ?? '');
  return isUrl(one, scheme) ? new URL(one) : undefined;
}

function isUrl(value: string, scheme: string): boolean {
  return value.startsWith(`${scheme}//`) && URL.canParse(value) && new URL(value).hostname !== '';
}

/** The scheme that `host:port` or `user:password@host` lacks; undefined for anything else. */
export function missingScheme(value: string, schemes: readonly string[]): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(value) || !/@|:\d{1,5}(?:\/|$)/.test(value)) return undefined;
  return schemes.find((scheme) => scheme !== 'sqlite:' && isUrl(`${scheme}//${value}`, scheme));
}
