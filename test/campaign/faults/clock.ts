import { fault } from './fault.ts';

const HOUR_S = 3_600;

export const clockAhead = fault('clock of Redis 25 h ahead, and back', 'queue', 1, [100, 3_000], async ({ queue }) => {
  await queue.setClock(25 * HOUR_S);
  return () => queue.setClock(0);
});

export const clockBack = fault(
  'clock of Redis 2 h back, and right again',
  'queue',
  1,
  [100, 2_000],
  async ({ queue }) => {
    await queue.setClock(-2 * HOUR_S);
    return () => queue.setClock(0);
  },
);
