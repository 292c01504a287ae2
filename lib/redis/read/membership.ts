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
const TIDY_INTERVAL_MS = 60_000;

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
  readonly #register = new Script('register.lua');
  readonly #leave = new Script('leave.lua');
  #heartbeats: Timer | undefined;
  #replicasMax = 0;
  #replicas = 0;
  #crowded = false;
  #tidiedMs: number;

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#tidiedMs = options.clock.ms();
  }

  /** The number of replicas with a recent heartbeat, including this one. */
  get replicas(): number {
    return this.#replicas;
  }

  async register(replicasMax: number): Promise<boolean> {
    if ((await this.#renew(replicasMax)) === -1) return false;
    this.registerLater(replicasMax);
    return true;
  }

  /** Sends heartbeats as soon as the queue accepts them, even if the maximum of replicas is reached. */
  registerLater(replicasMax: number): void {
    this.#replicasMax = replicasMax;
    if (this.#heartbeats !== undefined) return;
    this.#heartbeats = this.#options.clock.every(HEARTBEAT_INTERVAL_MS, () => void this.#beat());
    // Without an immediate heartbeat, others would consider this member dead during the first interval.
    void this.#beat();
  }

  async end(reachable: boolean): Promise<void> {
    this.#heartbeats?.close();
    if (reachable) await this.#leaveGroup(0).catch(() => undefined);
  }

  async #renew(replicasMax: number): Promise<number> {
    const { run, name } = this.#options;
    const args = [name, String(REPLICA_LEASE_MS), String(replicasMax)];
    const replicas = (await run(this.#register, args)) as number;
    if (replicas !== -1) this.#replicas = replicas;
    return replicas;
  }

  /** A replica that was frozen for longer than its lease may have lost its place. It logs a warning and continues. */
  async #beat(): Promise<void> {
    const { clock, log } = this.#options;
    try {
      const replicas = await this.#renew(0);
      const crowded = replicas > this.#replicasMax;
      if (crowded && !this.#crowded)
        log.warn({ replicas }, 'more replicas run than INGEST_CONSUMER_REPLICAS_MAX allows');
      this.#crowded = crowded;
      if (clock.ms() - this.#tidiedMs < TIDY_INTERVAL_MS) return;
      this.#tidiedMs = clock.ms();
      await this.#leaveGroup(MEMBER_IDLE_MAX_MS);
    } catch (cause) {
      log.debug({ err: cause }, 'no heartbeat sent');
    }
  }

  async #leaveGroup(idleMs: number): Promise<void> {
    const { run, name } = this.#options;
    await run(this.#leave, [GROUP, name, String(idleMs)]);
  }
}
