// The membership of a replica in the consumer group, renewed by a heartbeat every second. A replica without a heartbeat
// for REPLICA_LEASE_MS is not counted until it sends another one.
import { hostname } from 'node:os';
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import type { Clock, Random, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { GROUP } from '../stream/layout.ts';
import type { RedisValue } from '../wire/values.ts';
import { Script } from '../wire/script.ts';

const HEARTBEAT_INTERVAL_MS = 1_000;
/** Idle members without pending entries are removed after this long. */
const MEMBER_IDLE_MAX_MS = 10 * 60_000;
const LEAVES = -1;

/** The name must be unique: two members with the same name would share their pending entries. */
export const memberName = (random: Random): string => `${hostname()}-${process.pid}-${random.uuid().slice(0, 8)}`;

interface MembershipOptions {
  readonly run: (script: Script, args: readonly string[]) => Promise<RedisValue>;
  readonly clock: Clock;
  readonly log: Log;
  readonly name: string;
}

export class Membership {
  readonly #options: MembershipOptions;
  readonly #script = new Script('register.lua', 'fields.lua');
  #heartbeats: Timer | undefined;
  #replicasMax = 0;
  #replicas = 0;
  #crowded = false;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** The number of replicas with a recent heartbeat, including this one. */
  get replicas(): number {
    return this.#replicas;
  }

  async register(replicasMax: number): Promise<boolean> {
    if ((await this.#renew(replicasMax)) === -1) return false;
    this.#replicasMax = replicasMax;
    this.#heartbeats ??= this.#options.clock.every(HEARTBEAT_INTERVAL_MS, () => void this.#beat());
    return true;
  }

  async end(reachable: boolean): Promise<void> {
    this.#heartbeats?.close();
    if (reachable) await this.#renew(LEAVES).catch(() => undefined);
  }

  async #renew(replicasMax: number): Promise<number> {
    const { run, name } = this.#options;
    const args = [REPLICA_LEASE_MS, replicasMax, GROUP, MEMBER_IDLE_MAX_MS].map(String);
    const replicas = (await run(this.#script, [name, ...args])) as number;
    if (replicas !== -1) this.#replicas = replicas;
    return replicas;
  }

  /** A replica that was frozen for longer than its lease may have lost its place. It logs a warning and continues. */
  async #beat(): Promise<void> {
    const { log } = this.#options;
    try {
      const replicas = await this.#renew(0);
      const crowded = replicas > this.#replicasMax;
      if (crowded && !this.#crowded)
        log.warn({ replicas }, 'more replicas run than INGEST_CONSUMER_REPLICAS_MAX allows');
      this.#crowded = crowded;
    } catch (cause) {
      log.debug({ err: cause }, 'no heartbeat sent');
    }
  }
}
