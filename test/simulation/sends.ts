// The requests of a run, drawn from its seed: events, repeated events, ids of another producer, and lookups.
import type { Random } from '../campaign/random.ts';

export interface Send {
  readonly kind: 'event' | 'look up';
  readonly atMs: number;
  readonly id: string;
  readonly producer: string;
  readonly variant: number;
  /** A number in [0, 1) that selects the gateway. */
  readonly which: number;
}

const PRODUCERS = ['urn:shop', 'urn:till'] as const;
const [SHOP, TILL] = PRODUCERS;
const POISON_SHARE = 0.02;
const BURST_SHARE = 0.3;
const REPEAT_MS = 12_000;

export function drawSends(random: Random, events: number, lastMs: number): readonly Send[] {
  const sends: Send[] = [];
  let atMs = 0;
  let which = 0;
  for (let at = 0; at < events; at += 1) {
    // Events that are sent to the same gateway at the same time travel in one call.
    if (at === 0 || !random.chance(BURST_SHARE)) {
      atMs = random.between(0, lastMs);
      which = random.fraction();
    }
    const id = `${random.chance(POISON_SHARE) ? 'poison' : 'order'}-${at}`;
    const send: Send = { kind: 'event', atMs, id, producer: random.chance(0.8) ? SHOP : TILL, variant: 0, which };
    sends.push(send);
    if (random.chance(0.04)) sends.push(another(random, send, 0));
    if (random.chance(0.25)) sends.push(another(random, send, random.between(0, REPEAT_MS)));
    for (let left = random.between(0, 1); left > 0; left -= 1)
      sends.push({ ...send, kind: 'look up', atMs: atMs + random.between(0, REPEAT_MS), which: random.fraction() });
  }
  return sends;
}

function another(random: Random, send: Send, afterMs: number): Send {
  const atMs = send.atMs + afterMs;
  const which = afterMs === 0 ? send.which : random.fraction();
  if (random.chance(0.2)) return { ...send, atMs, which, producer: send.producer === SHOP ? TILL : SHOP };
  return { ...send, atMs, which, variant: random.chance(0.2) ? 1 : 0 };
}
