// URIs that name several hosts: `scheme://[user:password@]host:port,host:port/path?query`. The URL class reads one host
// only.

export interface ListUri {
  /** With its colon. */
  readonly scheme: string;
  readonly hosts: readonly string[];
  /** The URI as if it named one host alone: what surrounds the hosts is the same. */
  of(host: string): string;
}

/** The parts of such a URI, or of one with a single host; undefined where it is none. */
export function listUri(text: string): ListUri | undefined {
  const match = /^([a-z][a-z0-9+.-]*:)\/\/(?:([^/?#@]*)@)?([^/?#@]+)(\/[^?#]*)?(\?[^#]*)?$/i.exec(text);
  if (match === null) return undefined;
  const [, scheme = '', user, hosts = '', path = '', query = ''] = match;
  const list = hosts.split(',');
  const of = (host: string): string => `${scheme}//${user === undefined ? '' : `${user}@`}${host}${path}${query}`;
  const good = list.every((host) => host !== '' && URL.canParse(of(host)) && new URL(of(host)).hostname !== '');
  return good ? { scheme, hosts: list, of } : undefined;
}
