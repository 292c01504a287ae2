// What is measured: the gateway, the floor beneath it and the peers beside it. All with the same certificates, the same
// kind of Redis and the same load.
import type { BenchEnvironment, RunningServer } from './bench-environment.ts';
import { compileLimit } from './peers/limit.ts';
import { ensureNginx, startNginx } from './peers/nginx.ts';

export interface Subject {
  readonly name: string;
  start(environment: BenchEnvironment, redis: RunningServer): Promise<RunningServer>;
}

export const GATEWAY: Subject = {
  name: 'gateway',
  start: (environment, redis) => environment.gateway(redis),
};

/** The gateway of another checkout. */
export const gatewayOf = (root: string): Subject => ({
  name: 'base',
  start: (environment, redis) => environment.gateway(redis, root),
});

/** An empty node:https server that answers 202 at once: what TLS and HTTP cost before there is any gateway. */
export const FLOOR: Subject = {
  name: 'floor',
  start: (environment) => environment.peer('floor.ts'),
};

/** The same server, which awaits one reply of Redis for each request: the least that a server with a queue costs. */
export const FLOOR_WITH_REDIS: Subject = {
  name: 'floor with Redis',
  start: (environment, redis) => environment.peer('floor.ts', { REDIS_PORT: String(redis.port) }),
};

export const FASTIFY: Subject = {
  name: 'fastify',
  start: (environment, redis) => environment.peer('fastify.ts', { REDIS_PORT: String(redis.port) }),
};

/** nginx where the system has it or can get it. */
export function nginx(): Subject | undefined {
  const binary = ensureNginx();
  if (binary === undefined) return undefined;
  return { name: 'nginx', start: (environment, redis) => startNginx(binary, environment, redis) };
}

/** The limit of the machine, where it can be compiled. */
export function limit(environment: BenchEnvironment): Subject | undefined {
  const binary = compileLimit(environment);
  if (binary === undefined) return undefined;
  const { cert, key, ca } = environment.certificates;
  return { name: 'limit', start: () => environment.announced('limit', binary, [cert, key, ca]) };
}
