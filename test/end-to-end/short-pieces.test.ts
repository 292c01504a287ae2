// The short form of short-pieces.long.ts.
import { itTakesBytes } from './short-pieces.ts';

itTakesBytes('own', { connections: 4, pad: 130_000, growthMbMax: 100 });
itTakesBytes('node', { connections: 4, pad: 130_000, growthMbMax: 100 });
