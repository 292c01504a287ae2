// Parses INGEST_QUEUE_URI: one server, a master that Sentinel watches, some nodes of a Redis Cluster, or two queues
// (RFC 014), perhaps of one server. With `rediss` and `dispatchers`, all connections use TLS, including those to
// sentinels and nodes.
import type { Settings } from './read-settings.ts';
import { listUri } from './uri.ts';

/** Each of `hosts` is `host:port`. `uriOf` returns the URI of one server, without user and password if `anonymous`. */
export type QueueAddress =
  | { readonly kind: 'server'; readonly uri: string }
  /** `uris` are the servers of `ingest-a` and `ingest-b`. */
  | { readonly kind: 'dispatcher'; readonly uris: readonly [string, string] }
  | {
      readonly kind: 'sentinel' | 'cluster';
      readonly hosts: readonly string[];
      /** Empty for a cluster. */
      readonly masterName: string;
      readonly uriOf: (host: string, anonymous?: boolean) => string;
    };

const DEFAULT_PORT = { sentinel: 26379, cluster: 6379 } as const;

/** Returns the URI of the queue. Adds problems to the report, including settings that contradict the URI. */
export function queueUriOf(settings: Settings): string {
  const uri = settings.get('INGEST_QUEUE_URI') ?? '';
  if (uri === '') return uri;
  const address = queueAddress(uri);
  if (typeof address === 'string') settings.problem('INGEST_QUEUE_URI', address, uri);
  else if (address.kind !== 'cluster' && settings.given('INGEST_QUEUE_PARTITIONS'))
    settings.problem(
      'INGEST_QUEUE_PARTITIONS',
      'expected a redis+cluster URI with it: the number of partitions of another queue is fixed',
    );
  return uri;
}

export const isDispatcher = (uri: string): boolean => /^dispatchers?:/.test(uri);

const FORMS = {
  server: 'redis://[user:password@]host:port[/db]',
  sentinel: 'redis+sentinel://[user:password@]host:port,host:port/<master name>[?db=N]',
  cluster: 'redis+cluster://[user:password@]host:port,host:port',
  dispatcher: 'dispatcher://[user:password@]host-a:port,host-b:port',
} as const;

/** Returns the address, or the problem as text (`expected …`). The URI must have passed the checks in env.ts. */
export function queueAddress(uri: string): QueueAddress | string {
  const list = listUri(uri);
  if (list === undefined) return 'expected the URI of a queue';
  const { username, password, pathname, search } = new URL(list.of('host'));
  const scheme = /^(?:rediss|dispatchers)/.test(uri) ? 'rediss' : 'redis';
  const ofSeveral = /^rediss?\+(sentinel|cluster):$/.exec(list.scheme)?.[1] as 'sentinel' | 'cluster' | undefined;
  const kind = ofSeveral ?? (isDispatcher(uri) ? 'dispatcher' : 'server');
  const path = decodeURIComponent(pathname.slice(1));
  const db = search.slice('?db='.length);
  // Anything unexpected is a problem, so that no part of the URI is silently ignored.
  const isForm = {
    server: /^\d{0,5}$/.test(path) && !uri.includes('?') && list.hosts.length === 1,
    sentinel: /^[^/]+$/.test(path) && /^(?:\?db=\d{0,5})?$/.test(search),
    cluster: path === '' && search === '',
    dispatcher: path === '' && !uri.includes('?') && list.hosts.length === 2,
  }[kind];
  if (!isForm || uri.includes('#')) return `expected ${FORMS[kind]}; in a password, # is written %23`;
  if (kind === 'server') return { kind, uri };
  if (kind === 'dispatcher') {
    const [one = '', other = ''] = list.hosts.map((host) => list.of(host).replace(list.scheme, `${scheme}:`));
    return { kind, uris: [one, other] };
  }
  const user = username === '' && password === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`;
  return {
    kind,
    hosts: list.hosts.map((host) => (/:\d+$/.test(host) ? host : `${host}:${DEFAULT_PORT[kind]}`)),
    masterName: path,
    uriOf: (host, anonymous = false) =>
      `${scheme}://${anonymous ? '' : user}${host}${db === '' || anonymous ? '' : `/${db}`}`,
  };
}
