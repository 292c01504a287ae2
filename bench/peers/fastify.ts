// The peer that most developers would write: Fastify with a JSON schema, ioredis with auto-pipelining, one XADD per
// request, mutual TLS. Unlike the gateway, it has no index of ids and no metrics, and it neither checks the audience
// nor logs.
//
// Environment: PORT, CERT, KEY, CA (paths), REDIS_PORT.
import { readFileSync } from 'node:fs';
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import { EventSchema } from '../../lib/ingest/event.ts';

const env = process.env;
const redis = new Redis({ port: Number(env['REDIS_PORT']), host: '127.0.0.1', enableAutoPipelining: true });
const app = Fastify({
  https: {
    cert: readFileSync(env['CERT'] ?? ''),
    key: readFileSync(env['KEY'] ?? ''),
    ca: readFileSync(env['CA'] ?? ''),
    requestCert: true,
    rejectUnauthorized: true,
  },
  bodyLimit: 262_144,
  keepAliveTimeout: 60_000,
});

interface Body {
  readonly id: string;
}

// The round trip through JSON removes TypeBox's symbols.
const schema = {
  body: JSON.parse(JSON.stringify(EventSchema)) as object,
  response: { 202: { type: 'object', properties: { id: { type: 'string' }, status: { type: 'string' } } } },
};

app.post<{ Body: Body }>('/events', { schema }, async (request, reply) => {
  const requestId = request.headers['x-request-id'];
  if (requestId !== undefined) reply.header('X-Request-Id', requestId);
  await redis.xadd('ingest', '*', 'producer', 'bench', 'body', JSON.stringify(request.body));
  reply.code(202);
  return { id: request.body.id, status: 'accepted' };
});

await app.listen({ host: '127.0.0.1', port: Number(env['PORT'] ?? 0) });
const address = app.server.address();
process.stdout.write(`listening on ${typeof address === 'object' && address !== null ? address.port : ''}\n`);
process.on('SIGTERM', () => process.exit(0));
