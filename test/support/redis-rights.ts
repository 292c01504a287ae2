// The rules for Redis users that the README gives.
import { readFileSync } from 'node:fs';

const README = readFileSync(new URL('../../deploy/README.md', import.meta.url), 'utf8');

/**
 * The README's rule for a program, as the arguments of ACL SETUSER without the user's name; the password is `secret`.
 */
export function rule(program: string): string[] {
  const line = new RegExp(`ACL SETUSER ${program} (.*)`).exec(README)?.[1] ?? '';
  return line.replace('>PASSWORD', '>secret').split(' ');
}

/** What the README adds to a program's rule for a queue on a Redis Cluster, and for acknowledgements of replicas. */
export function clusterRule(program: string): string[] {
  const [, keys = '', commands = ''] = /the keys `([^`]+)`, and on a cluster `([^`]+)`/.exec(README) ?? [];
  const wait = /INGEST_QUEUE_REPLICAS` the gateway's `([^`]+)`/.exec(README)?.[1] ?? '';
  return [
    ...rule(program),
    ...keys.split(' '),
    ...commands.split(' '),
    ...(program === 'ingest-gateway' ? [wait] : []),
  ];
}
