// The check of each new connection's server: could it lose accepted events?
import type { Log } from '../../process/log.ts';
import type { Server } from '../wire/script.ts';
import { aofRewrite, durabilityFaults, replicationFaults, serverHistory } from '../server/facts.ts';
import { QueueRefusal, RewriteRunning } from '../wire/errors.ts';

interface DurabilityCheckOptions {
  /** Refuses such a server, or logs it. */
  readonly level: 'warn' | 'require';
  /** How many replicas accepting calls wait for. */
  readonly replicas: number;
  readonly log: Log;
}

export class DurabilityCheck {
  readonly #options: DurabilityCheckOptions;
  /** The history of the server that was found without a rewrite: a later one replaces a file that is whole. */
  #settled: string | undefined;

  constructor(options: DurabilityCheckOptions) {
    this.#options = options;
  }

  /**
   * Rejects, if durability is required, with a QueueRefusal for a server that could lose accepted events, and with
   * RewriteRunning for one whose append-only file is being rewritten: waiting helps there.
   */
  async check(server: Server): Promise<void> {
    const { level, replicas, log } = this.#options;
    const history = await serverHistory(server);
    const rewrite = history !== undefined && history === this.#settled ? undefined : await aofRewrite(server);
    if (rewrite === undefined) this.#settled = history;
    const faults = [...(await durabilityFaults(server)), ...(await replicationFaults(server, replicas))];
    if (rewrite?.isFirst === true) faults.push(rewrite.fault);
    if (level === 'require') {
      if (faults.length > 0) throw new QueueRefusal(`INGEST_QUEUE_DURABILITY=require: ${faults.join('; ')}`);
      if (rewrite !== undefined) throw new RewriteRunning(`INGEST_QUEUE_DURABILITY=require: ${rewrite.fault}`);
    } else if (rewrite?.isFirst === false) faults.push(rewrite.fault);
    for (const fault of faults) log.warn({ fault }, 'the queue may lose accepted events');
  }
}
