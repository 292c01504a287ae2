// Producers, gateways and consumers that are killed or frozen, and gateways whose files change. Killed programs are
// restarted.
import { fault, type Fault } from './fault.ts';

const AS_THEY_ARE = (): void => undefined;

export const killProducer = fault('producer with a journal killed', 'producer', 4, [0, 300], ({ journaled }) => {
  journaled.service.kill();
  return AS_THEY_ARE;
});

export const killGateway = fault('gateway killed', 'gateway', 6, [0, 300], ({ gateways }, random) => {
  random.pick(gateways).kill();
  return AS_THEY_ARE;
});

export const freezeGateway = fault('gateway frozen', 'gateway', 3, [50, 1_000], ({ gateways }, random) =>
  random.pick(gateways).freeze(),
);

// The rotation waits for all gateways, and a gateway does not start while the queue is unavailable.
export const rotateCredentials = fault(
  'certificates, revocation lists and the producers file replaced',
  'queue',
  3,
  [0, 300],
  async ({ credentials, ports }, random) => {
    await credentials.rotate(ports, random);
    return AS_THEY_ARE;
  },
);

export const killConsumer = fault('consumer killed', 'consumer', 8, [0, 300], ({ consumers }, random) => {
  random.pick(consumers).kill();
  return AS_THEY_ARE;
});

export const killConsumers = fault('all consumers killed', 'consumer', 2, [0, 300], ({ consumers }) => {
  for (const consumer of consumers) consumer.kill();
  return AS_THEY_ARE;
});

export const freezeConsumer = fault('consumer frozen', 'consumer', 4, [50, 1_000], ({ consumers }, random) =>
  random.pick(consumers).freeze(),
);

/** The consumer is frozen for longer than the claim timeout, so it writes after others have claimed its entries. */
export const freezeConsumerLong: Fault = {
  ...fault('consumer frozen until it is claimed', 'consumer', 1, [11_000, 14_000], ({ consumers }, random) =>
    random.pick(consumers).freeze(),
  ),
  lingers: true,
};

export const freezeConsumers = fault('all consumers frozen', 'consumer', 2, [50, 1_000], ({ consumers }) => {
  const thaws = consumers.map((consumer) => consumer.freeze());
  return () => thaws.forEach((thaw) => thaw());
});
