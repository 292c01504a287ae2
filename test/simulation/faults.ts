// The faults of a run, drawn from its seed: first the kinds of faults, then the time and duration of each fault.
import type { Random } from '../campaign/random.ts';

/** The shortest and the longest duration of each kind, in milliseconds. */
const LASTING = {
  cut: [0, 0],
  'slow link': [200, 3_000],
  'kill server': [20, 3_000],
  'still server': [100, 6_000],
  'forget scripts': [0, 0],
  'power loss': [20, 1_500],
  promotion: [20, 1_500],
  full: [100, 3_000],
  'read-only': [100, 3_000],
  'clock ahead': [100, 3_000],
  'clock back': [100, 3_000],
  'a day passes': [0, 0],
  'kill gateway': [50, 1_500],
  'freeze gateway': [100, 4_000],
  'kill consumer': [50, 8_000],
  'freeze consumer': [2_000, 20_000],
  'stop consumer': [50, 2_000],
  'warehouse away': [200, 8_000],
  'warehouse slow': [500, 8_000],
  'commit unknown': [200, 5_000],
  replay: [0, 0],
  delete: [0, 0],
  erase: [0, 0],
  drop: [0, 0],
  prune: [0, 0],
  'land again': [0, 0],
} satisfies Readonly<Record<string, readonly [number, number]>>;

export type Kind = keyof typeof LASTING;
export const KINDS = Object.keys(LASTING) as Kind[];

export interface Fault {
  readonly kind: Kind;
  readonly atMs: number;
  readonly forMs: number;
  /** A number in [0, 1) that selects the target. */
  readonly which: number;
}

const KIND_SHARE = 0.35;
const FAULTS = [4, 14] as const;

export function drawFaults(random: Random, lastMs: number): readonly Fault[] {
  const some = KINDS.filter(() => random.chance(KIND_SHARE));
  const kinds = some.length === 0 ? [random.pick(KINDS)] : some;
  return Array.from({ length: random.between(...FAULTS) }, () => {
    const kind = random.pick(kinds);
    return {
      kind,
      atMs: random.between(1_000, lastMs),
      forMs: random.between(...LASTING[kind]),
      which: random.fraction(),
    };
  }).sort((one, other) => one.atMs - other.atMs);
}
