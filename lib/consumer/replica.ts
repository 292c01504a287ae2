// One replica: a Consumer for each stream of the queue, all with one warehouse, and their common health.
//
// Each stream is read, landed, acknowledged and claimed independently, so an unavailable stream does not delay the
// others. Limits apply to the process: the consumers divide the limit on body bytes equally and share the landing
// slots.
import type { ProcessState } from '../http/process-endpoints.ts';
import type { QueueReader } from '../ingest/queue.ts';
import { shared } from '../process/share-call.ts';
import { exposition } from '../telemetry/process-registry.ts';
import { Consumer, type ConsumerLimits, type ConsumerOptions } from './consumer.ts';
import { LandingSlots } from './landing.ts';
import type { ConsumerMetrics } from './metrics.ts';
import { watchOf } from './health.ts';

interface ReplicaOptions extends Omit<ConsumerOptions, 'reader' | 'limits'> {
  readonly limits: Pick<ConsumerLimits, 'batchMax' | 'replicasMax'>;
  /** In partition order. */
  readonly readers: readonly QueueReader[];
}

export class Replica {
  readonly #readers: ReplicaOptions['readers'];
  readonly #consumers: readonly Consumer[];
  readonly #metrics: ConsumerMetrics;
  readonly #watch: ReturnType<typeof watchOf>;

  constructor({ readers, ...options }: ReplicaOptions) {
    const { log, ...telemetry } = options.telemetry;
    this.#readers = readers;
    this.#metrics = telemetry.metrics;
    this.#watch = watchOf(options);
    const warehouse = { ...options.warehouse, prepare: shared(() => options.warehouse.prepare()) };
    const limits = { ...options.limits, slots: new LandingSlots(), streams: readers.length };
    this.#consumers = readers.map((reader, partition) => {
      const ownLog = readers.length === 1 ? log : log.child({ partition });
      return new Consumer({ ...options, warehouse, limits, reader, telemetry: { ...telemetry, log: ownLog } });
    });
  }

  async run(): Promise<void> {
    this.#watch.start(() => this.#consumers.some(({ prepared }) => prepared));
    await Promise.all(this.#consumers.map((consumer) => consumer.run()));
    await this.#watch.close();
  }

  stop(): void {
    for (const consumer of this.#consumers) consumer.stop();
  }

  /** Also connects the gauges. A replica is ready while events of at least one stream are landing. */
  state(): ProcessState {
    const [metrics, consumers, watch] = [this.#metrics, this.#consumers, this.#watch];
    const stopping = (): boolean => consumers.some((consumer) => consumer.stopping);
    const trouble = (): string | undefined => {
      const troubles = consumers.map((consumer) => consumer.trouble);
      return troubles.includes(undefined) ? undefined : troubles[0];
    };
    const unready = (): string | undefined => trouble() ?? watch.warehouseTrouble;
    const reads = (partition: number): boolean =>
      this.#readers[partition]?.state().available === true && consumers[partition]?.answers('queue') === true;
    metrics.ready.read(() => Number(!stopping() && unready() === undefined));
    metrics.warehouseAvailable.read(() =>
      Number(consumers.every((consumer) => consumer.answers('warehouse')) && watch.warehouseTrouble === undefined),
    );
    metrics.queueAvailable.read(() => Number(consumers.some((consumer) => consumer.answers('queue'))));
    const ofEach = (value: (consumer: Consumer, partition: number) => boolean) => () =>
      consumers.map((consumer, partition) => ({ labels: { partition }, value: Number(value(consumer, partition)) }));
    metrics.queueUp.readEach(ofEach((_, partition) => reads(partition)));
    metrics.replicasFull.readEach(ofEach((consumer) => consumer.full));
    metrics.replicas.read(() => {
      const counted = this.#readers.filter(({ replicas }) => replicas > 0);
      return counted.length === 0 ? 0 : Math.min(...counted.map(({ replicas }) => replicas));
    });
    return {
      draining: stopping,
      unready,
      unavailable: () =>
        new Map(
          consumers.flatMap(({ full, trouble: why }, partition) => {
            if (reads(partition) && !full) return [];
            const state = this.#readers[partition]?.state();
            return [[partition, (state?.available === false && !full ? state.reason : why) ?? '']];
          }),
        ),
      metrics: () => exposition(metrics.registry),
    };
  }
}
