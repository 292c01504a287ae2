import type { Random } from '../random.ts';
import type { World } from '../world.ts';

export type Part = 'producer' | 'gateway' | 'consumer' | 'queue' | 'warehouse';

/** Ends the fault. Resolves when the system works again. */
export type Mend = () => Promise<void> | void;

export interface Fault {
  readonly name: string;
  /** Relative frequency. */
  readonly weight: number;
  /** Two faults run together only if they touch different parts. */
  readonly touches: Part;
  /** How long the fault lasts, in milliseconds. */
  readonly holdMs: readonly [from: number, to: number];
  /** Continues during later rounds until its time is over. */
  readonly lingers?: boolean;
  readonly needsServer?: boolean;
  /** How many calls failed because of it, if that is counted. */
  readonly met?: (world: World) => number;
  readonly begin: (world: World, random: Random) => Promise<Mend> | Mend;
}
