// Producers, gateways and consumers that are killed or frozen, and gateways whose files change. Killed programs are
// restarted.
import type { Fault } from './fault.ts';

const AS_THEY_ARE = (): void => undefined;

export const killProducer: Fault = {
  name: 'producer with a journal killed',
  weight: 4,
  touches: 'producer',
  holdMs: [0, 300],
  begin: ({ journaled }) => {
    journaled.service.kill();
    return AS_THEY_ARE;
  },
};

export const killGateway: Fault = {
  name: 'gateway killed',
  weight: 6,
  touches: 'gateway',
  holdMs: [0, 300],
  begin: ({ gateways }, random) => {
    random.pick(gateways).kill();
    return AS_THEY_ARE;
  },
};

export const freezeGateway: Fault = {
  name: 'gateway frozen',
  weight: 3,
  touches: 'gateway',
  holdMs: [50, 1_000],
  begin: ({ gateways }, random) => random.pick(gateways).freeze(),
};

export const rotateCredentials: Fault = {
  name: 'certificates, revocation lists and the producers file replaced',
  weight: 3,
  // The rotation waits for all gateways, and a gateway does not start while the queue is unavailable.
  touches: 'queue',
  holdMs: [0, 300],
  begin: async ({ credentials, ports }, random) => {
    await credentials.rotate(ports, random);
    return AS_THEY_ARE;
  },
};

export const killConsumer: Fault = {
  name: 'consumer killed',
  weight: 8,
  touches: 'consumer',
  holdMs: [0, 300],
  begin: ({ consumers }, random) => {
    random.pick(consumers).kill();
    return AS_THEY_ARE;
  },
};

export const killConsumers: Fault = {
  name: 'all consumers killed',
  weight: 2,
  touches: 'consumer',
  holdMs: [0, 300],
  begin: ({ consumers }) => {
    for (const consumer of consumers) consumer.kill();
    return AS_THEY_ARE;
  },
};

export const freezeConsumer: Fault = {
  name: 'consumer frozen',
  weight: 4,
  touches: 'consumer',
  holdMs: [50, 1_000],
  begin: ({ consumers }, random) => random.pick(consumers).freeze(),
};

/** The consumer is frozen for longer than the claim timeout, so it writes after others have claimed its entries. */
export const freezeConsumerLong: Fault = {
  name: 'consumer frozen until it is claimed',
  weight: 1,
  touches: 'consumer',
  holdMs: [11_000, 14_000],
  lingers: true,
  begin: ({ consumers }, random) => random.pick(consumers).freeze(),
};

export const freezeConsumers: Fault = {
  name: 'all consumers frozen',
  weight: 2,
  touches: 'consumer',
  holdMs: [50, 1_000],
  begin: ({ consumers }) => {
    const thaws = consumers.map((consumer) => consumer.freeze());
    return () => thaws.forEach((thaw) => thaw());
  },
};
