// One round of the gate's cost check: what an event costs gateway and Redis at saturation, as ratios to what it costs
// the floor, which stands beside the gateway.
import type { BenchEnvironment } from './bench-environment.ts';
import { beside } from './beside.ts';
import type { CostRound } from './gate-verdict.ts';
import { FLOOR, GATEWAY } from './subjects.ts';
import { neighbourRatio } from './turns.ts';

/** Of each side: 120 pairs of slices are measured. */
const DURATION = { seconds: 6, warmupSeconds: 3 };

/** Rejects where an answer was no 202, or a connection broke. */
export async function costRound(environment: BenchEnvironment): Promise<CostRound> {
  const plans = [GATEWAY, FLOOR].map((subject) => ({ label: subject.name, subject }));
  const pair = { of: GATEWAY.name, against: FLOOR.name };
  const { pairs, foreignShare } = await beside(environment, plans, [pair], DURATION);
  const [measured] = pairs;
  if (measured === undefined) throw new Error('no pair was measured');
  return {
    gatewayToFloor: neighbourRatio(measured, 'serverUs'),
    redisToFloor: neighbourRatio(measured, 'redisUs', 'serverUs'),
    foreignShare,
  };
}
