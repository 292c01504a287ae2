// A producer that keeps no connection: handshake, one event, end. With a full handshake, and resuming the last session.
import type { BenchCase } from '../bench-case.ts';
import type { Run } from '../measure.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

const CONNECTIONS = 16;

export const newConnections: BenchCase = {
  name: 'new-connections',
  aim:
    'What an event costs that comes on a connection of its own, ' +
    'with a full mutual handshake and with a resumed one, and how many of them one core takes in a second.',
  comparisons: [
    { metric: 'serverUs', of: 'gateway full', against: 'floor full' },
    { metric: 'serverUs', of: 'gateway resumed', against: 'floor resumed' },
    { metric: 'serverUs', of: 'gateway resumed', against: 'gateway full' },
  ],
  runs: (bench) =>
    [false, true].flatMap((resume) =>
      [GATEWAY, FLOOR].map((subject) =>
        perCore(
          bench.run({
            label: `${subject.name} ${resume ? 'resumed' : 'full'}`,
            subject,
            load: 'new-connections.ts',
            options: { connections: CONNECTIONS, resume },
          }),
        ),
      ),
    ),
};

/** Adds how many connections, each with its event, the server takes for each second of CPU time. */
const perCore = (run: Run): Run => ({
  label: run.label,
  execute: async () => {
    const sample = await run.execute();
    const { serverUs } = sample.figures;
    return serverUs === undefined
      ? sample
      : { ...sample, figures: { ...sample.figures, perCoreS: 1_000_000 / serverUs } };
  },
});
