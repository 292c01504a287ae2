// Whether a server's settings make a stream take much more memory than it must.
//
// Fact: Redis keeps a stream in nodes of some entries each, of at most stream-node-max-bytes, and its allocator gives a
// node the next larger of few sizes. With the default of 4,096 bytes an event of 300 to 4,500 bytes takes 6 to 8 % more
// than with 32,768, at the same CPU time (deploy/RUNBOOK.md, Sizing).
import type { Server } from './client.ts';
import { RedisError } from './errors.ts';
import { missingRights, type Right } from './rights.ts';

/** Smaller nodes are told of. 0 means no limit. */
const NODE_BYTES_MIN = 16_384;
/** Fewer entries fill no node. 0 means no limit. */
const NODE_ENTRIES_MIN = 50;

const ASKS: readonly Right[] = [['config get', '', 'x']];

/**
 * What costs memory, in words for an operator; nothing where the server does not tell its settings, or not this user.
 */
export async function costlySettings(server: Server, stream: string): Promise<readonly string[]> {
  if ((await missingRights(server, stream, ASKS)).length > 0) return [];
  const told = await server.send(['CONFIG', 'GET', 'stream-node-max-*']).catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code !== 'LOADING') return [];
    throw cause;
  });
  const answer = told as readonly (string | null)[];
  const setting = (name: string): number => Number(answer[answer.indexOf(name) + 1] ?? 0);
  const bytes = answer.includes('stream-node-max-bytes') ? setting('stream-node-max-bytes') : 0;
  const entries = answer.includes('stream-node-max-entries') ? setting('stream-node-max-entries') : 0;
  return [
    ...(bytes > 0 && bytes < NODE_BYTES_MIN
      ? [`stream-node-max-bytes is ${bytes}: with 32768 events of 300 to 4,500 bytes take 6 to 8 % less memory`]
      : []),
    ...(entries > 0 && entries < NODE_ENTRIES_MIN
      ? [`stream-node-max-entries is ${entries}: with 1000 events of up to 1 kB take less memory`]
      : []),
  ];
}
