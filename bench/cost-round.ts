// Runs one round of the gate's cost check: the CPU time per event at saturation, as ratios to Fastify with one XADD
// per event. The servers run side by side.
//
// Fact: the floor uses no Redis and little memory, and the gateway's ratio to it ranged from 0.99 to 1.30 within
// three minutes. Choice: compare with a peer that does the same kind of work. Effect: the ratio ranged from 0.59 to
// 0.62 in the same three minutes.
import type { BenchEnvironment } from './bench-environment.ts';
import { beside } from './beside.ts';
import { PIPELINED_LOAD } from './cases/pipelining.ts';
import type { CostRound } from './gate-verdict.ts';
import { FASTIFY, GATEWAY, type Subject } from './subjects.ts';
import { neighbourRatio } from './turns.ts';

/** The time for each side of a pair. Three seconds is enough for 60 slices of 50 ms on each side. */
const DURATION = { seconds: 3, warmupSeconds: 3 };

/**
 * Also measures `base`, the gateway of another commit, if it is given. Rejects if an answer is not 202 or a
 * connection breaks.
 */
export async function costRound(environment: BenchEnvironment, base?: Subject): Promise<CostRound> {
  const subjects = base === undefined ? [GATEWAY, FASTIFY] : [GATEWAY, FASTIFY, base];
  const plans = [
    ...subjects.map((subject) => ({ label: subject.name, subject })),
    { label: 'pipelined', subject: GATEWAY, load: PIPELINED_LOAD },
    { label: 'plain', subject: GATEWAY },
  ];
  // Fact: when `base` was in only one pair, its Redis received half as many events as the gateway's Redis, which used
  // 1.09 times as much CPU time per event. Choice: every two servers form a pair, and the pipelined gateway is paired
  // with a second plain one, so that both sides of each pair receive the same load.
  const peers = subjects.flatMap(({ name }, at) =>
    subjects.slice(at + 1).map((other) => ({ of: name, against: other.name })),
  );
  const pipelined = { of: 'pipelined', against: 'plain' };
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
