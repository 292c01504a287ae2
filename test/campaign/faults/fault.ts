import type { Random } from '../random.ts';
import type { World } from '../world.ts';

export type Part = 'producer' | 'gateway' | 'consumer' | 'queue' | 'warehouse';

/** Ends the fault. Resolves when the system works again. */
export type Mend = () => Promise<void> | void;

export interface Fault {
  readonly name: string;
  readonly weight: number;
  /** Two faults run together only if they touch different parts. */
  readonly touches: Part;
  readonly holdMs: readonly [from: number, to: number];
  /** True if the fault continues during later rounds until its time is over. */
  readonly lingers?: boolean;
  readonly needsServer?: boolean;
  /** Returns the number of calls that failed because of the fault, if such calls are counted. */
  readonly met?: (world: World) => number;
  readonly begin: (world: World, random: Random) => Promise<Mend> | Mend;
}

export const fault = (
  name: string,
  touches: Part,
  weight: number,
  holdMs: Fault['holdMs'],
  begin: Fault['begin'],
): Fault => ({ name, touches, weight, holdMs, begin });

export const serverFault = (...given: Parameters<typeof fault>): Fault => ({ ...fault(...given), needsServer: true });
