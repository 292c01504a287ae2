import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { SwitchedLoad } from '../load/switched-load.ts';
import { CANONICAL_BODY_BYTES } from '../load/workload.ts';
import { residentBytes } from '../process-cost.ts';
import { FLOOR, GATEWAY, type Subject, withServer } from '../subjects.ts';
import { runOf, type Run } from '../measure.ts';

const CONNECTIONS = 5_000;

export const idleConnections: BenchCase = {
  name: 'idle-connections',
  aim: `Memory of the gateway for each of ${CONNECTIONS.toLocaleString('en-US')} idle connections.`,
  roundsMax: 2,
  comparisons: [{ metric: 'bytesEach', of: 'gateway', against: 'floor' }],
  runs: (bench) => [idleRun(bench, GATEWAY), idleRun(bench, FLOOR)],
};

function idleRun(bench: Bench, subject: Subject): Run {
  const label = subject.name;
  return runOf(label, () =>
    withServer(bench.environment, subject, async (server) => {
      const { port } = server;
      const options = { port, bodyBytes: CANONICAL_BODY_BYTES, depth: 1, ...bench.environment.certificates.client };
      // The first connections allocate memory that all connections share, so they are not measured.
      const few = await SwitchedLoad.open({ ...options, connections: 100 });
      const before = residentBytes(server.pid);
      const many = await SwitchedLoad.open({ ...options, connections: CONNECTIONS });
      const bytesEach = (residentBytes(server.pid) - before) / CONNECTIONS;
      // If the handshakes take longer than the server's idle timeout, too few connections are measured.
      const broken = many.broken === 0 ? {} : { void: `${many.broken} broken connections` };
      for (const load of [few, many]) load.close();
      return { label, figures: { bytesEach }, statuses: {}, ...broken };
    }),
  );
}
