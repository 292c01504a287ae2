import type { BenchCase } from '../bench-case.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

const CONNECTIONS = 16;

export const newConnections: BenchCase = {
  name: 'new-connections',
  aim: 'CPU time of an event with its own connection, after a full mutual handshake or a resumed one.',
  comparisons: [
    { metric: 'serverUs', of: 'gateway full', against: 'floor full' },
    { metric: 'serverUs', of: 'gateway resumed', against: 'floor resumed' },
    { metric: 'serverUs', of: 'gateway resumed', against: 'gateway full' },
  ],
  runs: (bench) =>
    [false, true].flatMap((resume) =>
      [GATEWAY, FLOOR].map((subject) =>
        bench.run({
          label: `${subject.name} ${resume ? 'resumed' : 'full'}`,
          subject,
          load: 'new-connections.ts',
          options: { connections: CONNECTIONS, resume },
        }),
      ),
    ),
};
