// A fault: something that is broken for a while, and mended.
import type { Random } from '../random.ts';
import type { World } from '../world.ts';

export type Part = 'producer' | 'gateway' | 'consumer' | 'queue' | 'warehouse';

/** Mends it; resolves when what was broken stands again. */
export type Mend = () => Promise<void> | void;

export interface Fault {
  readonly name: string;
  /** How often it comes, compared with the others. */
  readonly weight: number;
  /** Two faults come together only where they touch different parts. */
  readonly touches: Part;
  /** How long it is left as it is, in milliseconds. */
  readonly holdMs: readonly [from: number, to: number];
  /** It goes on while the next rounds come, and is mended when its time is over. */
  readonly lingers?: boolean;
  /** Only on a warehouse that is a server. */
  readonly needsServer?: boolean;
  /** How many calls have failed because of it, where that is counted. */
  readonly met?: (world: World) => number;
  readonly begin: (world: World, random: Random) => Promise<Mend> | Mend;
}
