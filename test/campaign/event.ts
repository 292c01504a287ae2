// The number of an event determines its id and its body, so the comparison needs no stored bodies. One body in a
// hundred has 16 to 250 KiB. One id in twenty has the maximum length and three bytes per character.
import { Random } from './random.ts';

const KIB = 1024;
const SIZES: readonly (readonly [share: number, from: number, to: number])[] = [
  [0.9, 0.1 * KIB, KIB],
  [0.09, KIB, 16 * KIB],
  [0.01, 16 * KIB, 250 * KIB],
];
const LONG_ID_SHARE = 0.05;
const ID_CHARACTERS_MAX = 256;

const NOISE = noise(256 * KIB);

function noise(length: number): string {
  const random = new Random(1);
  let text = '';
  while (text.length < length) text += random.between(0, 36 ** 6 - 1).toString(36);
  return text.slice(0, length);
}

export function idOf(number: number): string {
  const name = `event-${number}`;
  if (!new Random(~number).chance(LONG_ID_SHARE)) return name;
  return `${name}-${'事'.repeat(ID_CHARACTERS_MAX - name.length - 1)}`;
}

export function numberOf(id: string): number | undefined {
  const number = Number(/^event-(\d+)/.exec(id)?.[1]);
  return idOf(number) === id ? number : undefined;
}

/** Variant 0 is sent first. Other variants have the same id and different bytes. */
export function bodyOf(number: number, variant: number): string {
  const random = new Random(number * 31 + variant);
  const bytes = sizeOf(random);
  const head = JSON.stringify({ id: idOf(number), type: 'campaign.event', variant, odd: '\u0000\ud800 é' });
  const room = Math.max(0, Math.floor(bytes) - Buffer.byteLength(head) - 16);
  const at = random.between(0, NOISE.length - room);
  return `${head.slice(0, -1)} , "data":"${NOISE.slice(at, at + room)}"}\n`;
}

function sizeOf(random: Random): number {
  let left = random.fraction();
  for (const [share, from, to] of SIZES) {
    left -= share;
    if (left < 0) return from * (to / from) ** random.fraction();
  }
  return KIB;
}
