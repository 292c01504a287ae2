// The ACL rules in deploy/install.md, and the additional rules for a Redis Cluster in deploy/scale.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const page = (name: string): string => readFileSync(new URL(`../../deploy/${name}`, import.meta.url), 'utf8');
const INSTALL = page('install.md');
const SCALE = page('scale.md');

/** Returns the arguments of ACL SETUSER after the name, with `secret` as the password. */
export function rule(program: string): string[] {
  const line = new RegExp(`ACL SETUSER ${program} (.*)`).exec(INSTALL)?.[1] ?? '';
  return line.replace('>PASSWORD', '>secret').split(' ');
}

export function clusterRule(program: string): string[] {
  const found = /the keys `([^`]+)`[^`]*on a cluster `([^`]+)`[^`]*`INGEST_QUEUE_REPLICAS`[^`]*`([^`]+)`/.exec(SCALE);
  const [, keys = '', commands = '', wait = ''] = found ?? assert.fail('deploy/scale.md has no rule for a cluster');
  return [
    ...rule(program),
    ...keys.split(' '),
    ...commands.split(' '),
    ...(program === 'ingest-gateway' ? [wait] : []),
  ];
}
