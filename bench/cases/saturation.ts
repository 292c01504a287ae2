// Runs the canonical workload against the gateway alone, and against the gateway paired with each floor and peer.
//
// Fact: with twice as many events, Redis uses 1.09 times as much CPU time per event. Choice: each pair gets fresh
// servers.
import type { BenchCase } from '../bench-case.ts';
import { FASTIFY, FLOOR, FLOOR_WITH_REDIS, GATEWAY, GATEWAY_WITH_NODE_READER } from '../subjects.ts';

export const besidePeer = (peer: string): string => `gateway beside ${peer}`;

export const saturation: BenchCase = {
  name: 'saturation',
  aim: 'CPU time of one event at saturation, in a closed loop over 50 connections.',
  comparisons: [
    { metric: 'totalUs', of: besidePeer('nginx'), against: 'nginx', limit: { atMost: 0.85 } },
    { metric: 'serverUs', of: besidePeer('floor'), against: 'floor', limit: { atMost: 1 } },
    { metric: 'serverUs', of: besidePeer('floor with Redis'), against: 'floor with Redis' },
    { metric: 'serverUs', of: besidePeer('limit'), against: 'limit', limit: { atMost: 1.8 } },
    { metric: 'totalUs', of: besidePeer('fastify'), against: 'fastify', limit: { atMost: 0.75 } },
    { metric: 'redisUs', of: besidePeer('fastify'), against: 'fastify' },
    { metric: 'serverUs', of: besidePeer('node reader'), against: 'node reader', limit: { atMost: 0.8 } },
    { metric: 'heapBytes', of: besidePeer('floor'), against: 'floor' },
    { metric: 'heapBytes', of: besidePeer('fastify'), against: 'fastify' },
  ],
  runs: (bench) => {
    const peers = [FLOOR, FLOOR_WITH_REDIS, bench.limit, bench.nginx, FASTIFY, GATEWAY_WITH_NODE_READER].filter(
      (peer) => peer !== undefined,
    );
    return [
      bench.run({ label: 'gateway', subject: GATEWAY }),
      ...peers.map((peer) => {
        const label = besidePeer(peer.name);
        const plans = [
          { label, subject: GATEWAY },
          { label: peer.name, subject: peer },
        ];
        return bench.beside(plans, [{ of: label, against: peer.name }]);
      }),
    ];
  },
};
