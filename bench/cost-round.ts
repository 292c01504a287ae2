// One round of the gate's cost check: what an event costs gateway and Redis at saturation, as ratios to what it costs
// Fastify and Redis, where each event is one XADD. Both servers stand beside each other.
//
// Fact: the ratio of two programs is that of their kinds of work on this machine at this hour, also beside each other.
// The floor waits for no Redis and touches little memory: within three minutes the gateway cost 0.99 to 1.30 times as
// much as it, and on other days 0.86 to 0.93. Choice: a peer that does the same work in another way. Effect: 0.59 to
// 0.62 in the same three minutes.
import type { BenchEnvironment } from './bench-environment.ts';
import { beside } from './beside.ts';
import { PIPELINED_LOAD } from './cases/pipelining.ts';
import type { CostRound } from './gate-verdict.ts';
import { FASTIFY, GATEWAY, type Subject } from './subjects.ts';
import { neighbourRatio } from './turns.ts';

/** Of each side of a pair: 60 pairs of slices are measured. */
const DURATION = { seconds: 3, warmupSeconds: 3 };

/**
 * With `base`, the gateway of another commit is measured too. Rejects where an answer was not 202, or a connection
 * broke.
 */
export async function costRound(environment: BenchEnvironment, base?: Subject): Promise<CostRound> {
  const subjects = base === undefined ? [GATEWAY, FASTIFY] : [GATEWAY, FASTIFY, base];
  const plans = [
    ...subjects.map((subject) => ({ label: subject.name, subject })),
    { label: 'pipelined', subject: GATEWAY, load: PIPELINED_LOAD },
  ];
  // Fact: where the gateway alone was in two pairs, its Redis held twice as many events as that of `base`, and an event
  // cost it 1.09 times as much, with the same scripts. Choice: each two are a pair, so all have the same load.
  const peers = subjects.flatMap(({ name }, at) =>
    subjects.slice(at + 1).map((other) => ({ of: name, against: other.name })),
  );
  const pipelined = { of: 'pipelined', against: GATEWAY.name };
  const { pairs, foreignShare } = await beside(environment, plans, [...peers, pipelined], DURATION);
  const [toPeer, toBase] = pairs.slice(0, -1);
  const toPlain = pairs.at(-1);
  if (toPeer === undefined || toPlain === undefined) throw new Error('no pair was measured');
  return {
    gatewayToPeer: neighbourRatio(toPeer, 'serverUs'),
    redisToPeer: neighbourRatio(toPeer, 'redisUs'),
    pipelinedToPlain: neighbourRatio(toPlain, 'serverUs'),
    ...(toBase !== undefined && {
      gatewayToBase: neighbourRatio(toBase, 'serverUs'),
      redisToBase: neighbourRatio(toBase, 'redisUs'),
    }),
    foreignShare,
  };
}
