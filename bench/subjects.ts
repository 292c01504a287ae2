// The servers that the cases measure: the gateway, the floors and the peers. All have the same certificates, the same
// kind of Redis and the same load.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { type BenchEnvironment, ROOT, type RunningServer } from './bench-environment.ts';
import { ensureNginx, startNginx } from './peers/nginx.ts';

export interface Subject {
  readonly name: string;
  start(environment: BenchEnvironment, redis: RunningServer): Promise<RunningServer>;
}

export interface Started {
  readonly server: RunningServer;
  readonly redis: RunningServer;
}

/** Starts a fresh server and a fresh Redis for each subject, and stops all of them after `work`. */
export async function withServers<T>(
  environment: BenchEnvironment,
  subjects: readonly Subject[],
  work: (started: readonly Started[]) => Promise<T>,
): Promise<T> {
  const running: RunningServer[] = [];
  const noted = async (starting: Promise<RunningServer>): Promise<RunningServer> => {
    const server = await starting;
    running.push(server);
    return server;
  };
  try {
    const started: Started[] = [];
    for (const subject of subjects) {
      const redis = await noted(environment.redis());
      started.push({ redis, server: await noted(subject.start(environment, redis)) });
    }
    return await work(started);
  } finally {
    for (const server of running.reverse()) await server.stop();
  }
}

export const withServer = <T>(
  environment: BenchEnvironment,
  subject: Subject,
  work: (server: RunningServer, redis: RunningServer) => Promise<T>,
): Promise<T> =>
  withServers(environment, [subject], ([one]) => {
    if (one === undefined) throw new Error(`${subject.name} has not started`);
    return work(one.server, one.redis);
  });

export const GATEWAY: Subject = {
  name: 'gateway',
  start: (environment, redis) => environment.gateway(redis),
};

/** The gateway without its fast path: node:https reads all requests. */
export const GATEWAY_WITH_NODE_READER: Subject = {
  name: 'node reader',
  start: (environment, redis) => environment.gateway(redis, ROOT, { INGEST_HTTP_READER: 'node' }),
};

export const gatewayOf = (root: string): Subject => ({
  name: 'base',
  start: (environment, redis) => environment.gateway(redis, root),
});

/** An empty node:https server that answers 202: the cost of TLS and HTTP alone. */
export const FLOOR: Subject = {
  name: 'floor',
  start: (environment) => environment.peer('floor.ts'),
};

/** The same server, but each request waits for one reply from Redis: the minimum cost of a server with a queue. */
export const FLOOR_WITH_REDIS: Subject = {
  name: 'floor with Redis',
  start: (environment, redis) => environment.peer('floor.ts', { REDIS_PORT: String(redis.port) }),
};

export const FASTIFY: Subject = {
  name: 'fastify',
  start: (environment, redis) => environment.peer('fastify.ts', { REDIS_PORT: String(redis.port) }),
};

export function nginx(): Subject | undefined {
  const binary = ensureNginx();
  if (binary === undefined) return undefined;
  return { name: 'nginx', start: (environment, redis) => startNginx(binary, environment, redis) };
}

/** Compiles the server in C (limit.c). Returns `undefined` and prints a line on standard error if that fails. */
export function limit({ folder, certificates }: BenchEnvironment): Subject | undefined {
  const binary = join(folder, 'limit');
  const source = join(ROOT, 'bench/peers/limit.c');
  const compiled = spawnSync('cc', ['-O2', '-o', binary, source, '-lssl', '-lcrypto'], { encoding: 'utf8' });
  if (compiled.status !== 0) {
    const why = compiled.error?.message ?? compiled.stderr.split('\n')[0] ?? '';
    process.stderr.write(`the limit in C is left out: a C compiler and OpenSSL's headers are needed (${why})\n`);
    return undefined;
  }
  const { cert, key, ca } = certificates;
  return { name: 'limit', start: (environment) => environment.announced('limit', binary, [cert, key, ca]) };
}
