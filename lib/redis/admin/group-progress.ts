// The progress of the consumer group on a stream.
import { isEntryBefore } from '../../ingest/queue-admin.ts';
import { xinfo } from '../stream/group.ts';
import { GROUP } from '../stream/layout.ts';
import { isNoGroup } from '../wire/errors.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';

const PENDING_PAGE = 1_000;

/** Returns the last entry that the group has read. */
export async function lastRead(server: Server, stream: string): Promise<string> {
  const groups = (await xinfo(server, 'GROUPS', stream)) as readonly (readonly RedisValue[])[];
  const group = groups.map(fieldsOf).find((one) => one.get('name') === GROUP);
  return String(group?.get('last-delivered-id') ?? '0-0');
}

/** Returns which of the entries are pending. */
export async function pendingOf(
  server: Server,
  stream: string,
  entries: readonly string[],
): Promise<ReadonlySet<string>> {
  const sorted = entries.toSorted((one, other) => (isEntryBefore(one, other) ? -1 : 1));
  const [first, last] = [sorted[0], sorted.at(-1)];
  const found = new Set<string>();
  for (let from = first; from !== undefined && last !== undefined;) {
    const command = ['XPENDING', stream, GROUP, from, last, String(PENDING_PAGE)];
    const page = (await server.send(command).catch((cause: unknown) => {
      if (isNoGroup(cause)) return [];
      throw cause;
    })) as readonly (readonly RedisValue[])[];
    for (const [name] of page) found.add(String(name));
    from = page.length < PENDING_PAGE ? undefined : `(${String(page.at(-1)?.[0])}`;
  }
  return new Set(entries.filter((entry) => found.has(entry)));
}
