// Parses INGEST_QUEUE_URI: one server, a master that Sentinel watches, a Redis Cluster, or two queues (RFC 014).
//
//   redis://[user:password@]host:port[/db]
//   redis+sentinel://[user:password@]s1:26379,s2:26379/<master name>[?db=N]     user and password of the master
//   redis+cluster://[user:password@]h1:p1,h2:p2                                 some of the nodes
//   dispatcher://[user:password@]a:p1,b:p2                                      two servers, or one server twice
//
// With `rediss` and `dispatchers`, all connections use TLS, including those to sentinels and nodes.
import type { Settings } from './env.ts';
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

/** Returns the address, or the problem as text (`expected …`). The URI must have passed the checks in env.ts. */
export function queueAddress(uri: string): QueueAddress | string {
  const list = listUri(uri);
  if (list === undefined) return 'expected the URI of a queue';
  if (uri.includes('#')) return 'expected no #: in a password it is written %23';
  const { username, password, pathname, searchParams } = new URL(list.of('host'));
  const scheme = /^(?:rediss|dispatchers)/.test(uri) ? 'rediss' : 'redis';
  const kind = /^rediss?\+(sentinel|cluster):$/.exec(list.scheme)?.[1];
  const [parameter] = [...searchParams.keys()].filter((name) => name !== 'db' || kind !== 'sentinel');
  if (isDispatcher(uri)) {
    const [one, other, ...more] = list.hosts.map((host) => list.of(host).replace(list.scheme, `${scheme}:`));
    if (one === undefined || other === undefined || more.length > 0)
      return 'expected two hosts, of ingest-a and of ingest-b: dispatcher://host-a:6379,host-b:6379';
    if (uri.includes('?')) return 'expected no ? after the hosts';
    if (!/^\/?$/.test(pathname)) return 'expected no path: both queues are in database 0';
    return { kind: 'dispatcher', uris: [one, other] };
  }
  if (kind !== 'sentinel' && kind !== 'cluster') {
    if (parameter !== undefined)
      return `expected no ${parameter} after the ?: a database is written redis://host:port/3`;
    // Anything unexpected is a problem, so that no part of the URI is silently ignored.
    if (uri.includes('?')) return 'expected no ? after the host';
    if (!/^\/?\d{0,5}$/.test(pathname))
      return 'expected nothing after the host but the number of a database: redis://host:port/3';
    return { kind: 'server', uri };
  }
  const masterName = decodeURIComponent(pathname.slice(1));
  const db = searchParams.get('db') ?? '';
  if (parameter !== undefined) return `expected no ${parameter} after the ?`;
  if (kind === 'cluster' && masterName !== '') return 'expected no path: a Redis Cluster has one database, 0';
  if (kind === 'sentinel' && !/^[^/]+$/.test(masterName))
    return 'expected the name of the master, as Sentinel knows it, after the hosts: /<master name>';
  if (!/^\d{0,5}$/.test(db)) return 'expected the number of a database: ?db=0';
  const user = username === '' && password === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`;
  const hosts = list.hosts.map((host) => (/:\d+$/.test(host) ? host : `${host}:${DEFAULT_PORT[kind]}`));
  return {
    kind,
    hosts,
    masterName,
    uriOf: (host, anonymous = false) =>
      `${scheme}://${anonymous ? '' : user}${host}${db === '' || anonymous ? '' : `/${db}`}`,
  };
}
