// What a Redis server says of itself.
import type { RedisConnection } from './client.ts';
import type { Reply } from './reply.ts';

/** The fields of a section of INFO; none where the server does not tell (managed ones). */
export async function serverInfo(connection: RedisConnection<Reply>, section: string): Promise<Map<string, string>> {
  const text = await connection.send(['INFO', section]).then(
    (reply) => reply.bytes().toString('utf8'),
    () => '',
  );
  const fields = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}

/** Its name and version, e.g. `Redis 7.0.15`. */
export async function serverName(connection: RedisConnection<Reply>): Promise<string> {
  const server = await serverInfo(connection, 'server');
  const valkey = server.get('valkey_version');
  return valkey === undefined ? `Redis ${server.get('redis_version') ?? 'of an unknown version'}` : `Valkey ${valkey}`;
}
