// One round of the gate's cost check: what an event costs gateway and Redis at saturation, as ratios to what it costs
// Fastify and Redis, where each event is one XADD. Both servers stand beside each other.
//
// Fact: the ratio of two programs is that of their kinds of work on this machine at this hour, also beside each other.
// The floor waits for no Redis and touches little memory: within three minutes the gateway cost 0.99 to 1.30 times as
// much as it, and on other days 0.86 to 0.93. Choice: a peer that does the same work in another way. Effect: 0.59 to
// 0.62 in the same three minutes.
import type { BenchEnvironment } from './bench-environment.ts';
import { beside } from './beside.ts';
import type { CostRound } from './gate-verdict.ts';
import { FASTIFY, GATEWAY } from './subjects.ts';
import { neighbourRatio } from './turns.ts';

/** Of each side: 120 pairs of slices are measured. */
const DURATION = { seconds: 6, warmupSeconds: 3 };

/** Rejects where an answer was no 202, or a connection broke. */
export async function costRound(environment: BenchEnvironment): Promise<CostRound> {
  const plans = [GATEWAY, FASTIFY].map((subject) => ({ label: subject.name, subject }));
  const pair = { of: GATEWAY.name, against: FASTIFY.name };
  const { pairs, foreignShare } = await beside(environment, plans, [pair], DURATION);
  const [measured] = pairs;
  if (measured === undefined) throw new Error('no pair was measured');
  return {
    gatewayToPeer: neighbourRatio(measured, 'serverUs'),
    redisToPeer: neighbourRatio(measured, 'redisUs'),
    foreignShare,
  };
}
