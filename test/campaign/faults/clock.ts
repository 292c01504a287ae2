import { eventually } from '../../support/scope.ts';
import type { QueueServer } from '../queue-server.ts';
import type { Fault } from './fault.ts';

const HOUR_S = 3_600;

export async function setClock({ clock, redis }: QueueServer, offS: number): Promise<void> {
  const seconds = clock.startS + offS;
  clock.set(seconds);
  await eventually('Redis has the new time', async () => {
    const [now] = (await redis.command('TIME')) as [string, string];
    return Math.abs(Number(now) - Date.now() / 1000 - seconds) < 60;
  });
  clock.arrived();
}

export const clockAhead: Fault = {
  name: 'clock of Redis 25 h ahead, and back',
  weight: 1,
  touches: 'queue',
  holdMs: [100, 3_000],
  begin: async ({ queue }) => {
    await setClock(queue, 25 * HOUR_S);
    return () => setClock(queue, 0);
  },
};

export const clockBack: Fault = {
  name: 'clock of Redis 2 h back, and right again',
  weight: 1,
  touches: 'queue',
  holdMs: [100, 2_000],
  begin: async ({ queue }) => {
    await setClock(queue, -2 * HOUR_S);
    return () => setClock(queue, 0);
  },
};
