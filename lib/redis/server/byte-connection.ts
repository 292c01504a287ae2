// Connections over clients whose answers are bytes: for the ways that events take, in and out.
import { ByteClient } from '../wire/byte-client.ts';
import { RedisConnection, type ConnectionOptions } from './client.ts';
import type { Reply } from '../wire/reply.ts';
import type { Client } from './supervised-client.ts';

/** A connection whose answers are bytes; over a client of its own, or one that `open` makes. */
export const byteConnection = (
  { certificate, ...options }: ConnectionOptions,
  open = (uri: string, name: string): Client<Reply> => new ByteClient({ ...options, uri, name, certificate }),
): RedisConnection<Reply> => new RedisConnection(options, { open, value: (reply) => reply.value() });
