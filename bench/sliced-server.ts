// Puts a server under load in slices of time and measures the CPU time per event in each slice.
import type { BenchCertificates } from './bench-environment.ts';
import { SwitchedLoad } from './load/switched-load.ts';
import { CANONICAL_BODY_BYTES, CANONICAL_CONNECTIONS } from './load/workload.ts';
import type { MetricName } from './metrics.ts';
import { cpuSeconds } from './process-cost.ts';
import type { Slice, Sliced } from './turns.ts';

/** The ids of the processes whose CPU time per event is measured, by metric. */
export type MeteredProcesses = Readonly<Partial<Record<MetricName, readonly number[]>>>;

/** `depth` is the number of requests in flight on each connection. */
export interface LoadShape {
  readonly connections?: number;
  readonly depth?: number;
}

export class SlicedServer implements Sliced {
  readonly label: string;
  readonly #load: SwitchedLoad;
  readonly #processes: MeteredProcesses;

  private constructor(label: string, load: SwitchedLoad, processes: MeteredProcesses) {
    this.label = label;
    this.#load = load;
    this.#processes = processes;
  }

  /** Opens connections that are idle between slices. The default load is the canonical workload. */
  static async open(
    label: string,
    { ca: caPath, clientCert: certPath, clientKey: keyPath }: BenchCertificates,
    port: number,
    processes: MeteredProcesses,
    { connections = CANONICAL_CONNECTIONS, depth = 1 }: LoadShape = {},
  ): Promise<SlicedServer> {
    const load = await SwitchedLoad.open({
      ...{ port, caPath, certPath, keyPath },
      ...{ connections, depth, bodyBytes: CANONICAL_BODY_BYTES },
    });
    return new SlicedServer(label, load, processes);
  }

  /** Rejects if an answer is not 202 or a connection breaks. */
  async slice(ms: number): Promise<Slice> {
    const [before, beganMs] = [this.#usedSeconds(), performance.now()];
    const events = await this.#load.run(ms);
    const [after, endedMs] = [this.#usedSeconds(), performance.now()];
    const figures: Record<string, number> = { ratePerS: (events / (endedMs - beganMs)) * 1000 };
    for (const [metric, seconds] of after) figures[metric] = ((seconds - (before.get(metric) ?? 0)) / events) * 1e6;
    return { events, figures };
  }

  close(): void {
    this.#load.close();
  }

  #usedSeconds(): ReadonlyMap<string, number> {
    const used = Object.entries(this.#processes).map(
      ([metric, pids]) => [metric, pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)] as const,
    );
    return new Map(used);
  }
}
