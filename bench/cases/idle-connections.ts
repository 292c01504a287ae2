import { execFileSync } from 'node:child_process';
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { SwitchedLoad } from '../load/switched-load.ts';
import { CANONICAL_BODY_BYTES } from '../load/workload.ts';
import { residentBytes } from '../process-cost.ts';
import { FLOOR, GATEWAY, type Subject, withServer } from '../subjects.ts';
import type { Run } from '../measure.ts';

const WANTED = 5_000;
/** Files that a process has open besides its connections. */
const OTHER_FILES = 200;

function possible(): number {
  const limit = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
  return limit === 'unlimited' ? WANTED : Math.min(WANTED, Number(limit) - OTHER_FILES);
}

export const idleConnections: BenchCase = {
  name: 'idle-connections',
  aim: `Memory of the gateway for each of ${WANTED.toLocaleString('en-US')} idle connections.`,
  roundsMax: 2,
  comparisons: [{ metric: 'bytesEach', of: 'gateway', against: 'floor' }],
  leftOut: () => (possible() < 500 ? 'left out: the limit on open files (ulimit -n) is too low' : undefined),
  runs: (bench) => [idleRun(bench, GATEWAY), idleRun(bench, FLOOR)],
};

function idleRun(bench: Bench, subject: Subject): Run {
  const label = subject.name;
  const count = possible();
  return {
    label,
    execute: () =>
      withServer(bench.environment, subject, async (server) => {
        const { port } = server;
        const options = { port, bodyBytes: CANONICAL_BODY_BYTES, depth: 1, ...bench.environment.certificates.client };
        // The first connections allocate memory that all connections share, so they are not measured.
        const few = await SwitchedLoad.open({ ...options, connections: 100 });
        const before = residentBytes(server.pid);
        const many = await SwitchedLoad.open({ ...options, connections: count });
        const bytesEach = (residentBytes(server.pid) - before) / count;
        // If the handshakes take longer than the server's idle timeout, too few connections are measured.
        const broken = many.broken === 0 ? {} : { void: `${many.broken} broken connections` };
        for (const load of [few, many]) load.close();
        const notes =
          count < WANTED ? [`only ${count} connections: the limit on open files is too low for ${WANTED}`] : [];
        return { label, figures: { bytesEach }, statuses: {}, notes, ...broken };
      }),
  };
}
