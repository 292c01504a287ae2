// So many bodies as are too much where each piece stays a Buffer, or is read as soon as it has come.
import { itTakesBytes } from './short-pieces.ts';

itTakesBytes('own', { connections: 60, pad: 250_000, growthMbMax: 250 });
itTakesBytes('node', { connections: 60, pad: 250_000, growthMbMax: 250 });
