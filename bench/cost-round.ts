// One round of the gate's cost check: what an event costs gateway and Redis at saturation, as ratios to the floor's.
//
// Fact: on a shared machine a core's speed changes within a second; in runs of three seconds, one after the other, an
// event of the same floor took 42 to 85 µs, and the ratios of such runs were 0.69 to 1.22. Choice: gateway and floor
// stand beside each other, and the load turns from one to the other each SLICE_MS; a ratio is of two slices that are
// neighbours, and a round's is their median. Effect: rounds of the same hour are within a few percent of each other.
//
// The load runs in this process. One that is switched off leaves its server idle.
import type { BenchEnvironment, RunningServer } from './bench-environment.ts';
import type { CostRound } from './gate-verdict.ts';
import { SwitchedLoad } from './load/switched-load.ts';
import { CANONICAL_BODY_BYTES, CANONICAL_CONNECTIONS } from './load/workload.ts';
import { CpuBook, cpuSeconds } from './process-cost.ts';
import { median, ratios } from './statistics.ts';
import { FLOOR, GATEWAY } from './subjects.ts';

const SLICE_MS = 50;
/** Pairs of slices until both are compiled, and their collections have found their pace. */
const WARMUP_PAIRS = 60;
const MEASURED_PAIRS = 120;

/** A server under load, and what is booked in each of its slices: CPU time per event, in microseconds. */
interface Side {
  readonly server: RunningServer;
  readonly load: SwitchedLoad;
  readonly serverUs: number[];
  readonly redisUs: number[];
}

/** Rejects where an answer was no 202, or a connection broke. */
export async function costRound(environment: BenchEnvironment): Promise<CostRound> {
  const started: RunningServer[] = [];
  const loads: SwitchedLoad[] = [];
  const side = async (server: RunningServer): Promise<Side> => {
    started.push(server);
    const { ca: caPath, clientCert: certPath, clientKey: keyPath } = environment.certificates;
    const load = await SwitchedLoad.open({
      ...{ port: server.port, caPath, certPath, keyPath },
      ...{ connections: CANONICAL_CONNECTIONS, bodyBytes: CANONICAL_BODY_BYTES, ids: 'new' },
    });
    loads.push(load);
    return { server, load, serverUs: [], redisUs: [] };
  };
  try {
    const redis = await environment.redis();
    started.push(redis);
    const gateway = await side(await GATEWAY.start(environment, redis, {}));
    const floor = await side(await FLOOR.start(environment, redis, {}));
    await pairs(WARMUP_PAIRS, gateway, floor, redis);
    for (const { serverUs, redisUs } of [gateway, floor]) serverUs.length = redisUs.length = 0;
    const before = new CpuBook();
    await pairs(MEASURED_PAIRS, gateway, floor, redis);
    return {
      gatewayToFloor: median(ratios(gateway.serverUs, floor.serverUs)),
      redisToFloor: median(ratios(gateway.redisUs, floor.serverUs)),
      foreignShare: new CpuBook().foreignShare(before, process.pid),
    };
  } finally {
    for (const load of loads) load.close();
    for (const server of started.reverse()) await server.stop();
  }
}

async function pairs(count: number, gateway: Side, floor: Side, redis: RunningServer): Promise<void> {
  for (let pair = 0; pair < count; pair += 1)
    for (const side of pair % 2 === 0 ? [gateway, floor] : [floor, gateway]) await slice(side, redis);
}

async function slice({ server, load, serverUs, redisUs }: Side, redis: RunningServer): Promise<void> {
  const before = [cpuSeconds(server.pid), cpuSeconds(redis.pid)] as const;
  const events = await load.run(SLICE_MS);
  serverUs.push(((cpuSeconds(server.pid) - before[0]) / events) * 1e6);
  redisUs.push(((cpuSeconds(redis.pid) - before[1]) / events) * 1e6);
}
