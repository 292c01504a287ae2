export { SYSTEM } from '../../lib/process/clock.ts';
