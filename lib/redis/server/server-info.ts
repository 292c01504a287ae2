// What a Redis server says of itself.
import type { Reply } from '../wire/reply.ts';
import type { Sender } from '../wire/script.ts';

/** The fields of a section of INFO; none where the server does not tell (managed ones). */
export async function serverInfo(connection: Sender<Reply>, section: string): Promise<Map<string, string>> {
  const text = await connection.send(['INFO', section]).then(
    (reply) => reply.bytes().toString('utf8'),
    () => '',
  );
  return infoFields(text);
}

/** The fields of an answer to INFO. */
export function infoFields(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}

/** Its name and version, e.g. `Redis 7.0.15`, by its section `server`. */
export function serverName(server: ReadonlyMap<string, string>): string {
  const valkey = server.get('valkey_version');
  return valkey === undefined ? `Redis ${server.get('redis_version') ?? 'of an unknown version'}` : `Valkey ${valkey}`;
}
