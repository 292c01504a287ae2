// Sample events of about 300 bytes, with new ids.
import type { ClockAndRandom } from '../process/clock.ts';
import type { Input, InputEvent } from './input.ts';

const TYPES = ['order.created', 'order.paid', 'order.shipped', 'customer.registered', 'stock.changed'];

export function sampleInput(count: number, system: ClockAndRandom): Input {
  return { events: samples(count, system), bytes: undefined, close: () => undefined };
}

async function* samples(count: number, system: ClockAndRandom): AsyncGenerator<InputEvent> {
  for (let number = 1; number <= count; number += 1)
    yield await Promise.resolve({ number, line: number, bytes: sample(number, system) });
}

function sample(number: number, { clock, random }: ClockAndRandom): Buffer {
  const event = {
    id: random.uuid(),
    type: TYPES[number % TYPES.length],
    time: new Date(clock.epochMs()).toISOString(),
    source: 'ingest-send',
    data: {
      number,
      customer: { id: `c-${1_000 + (number % 50)}`, country: 'DE' },
      items: [{ sku: `A-${number % 7}`, quantity: 1 + (number % 3), price: '19.90' }],
      total: '19.90',
      currency: 'EUR',
    },
  };
  return Buffer.from(JSON.stringify(event));
}
