// One run: two gateways, three consumers and some producers on one virtual clock, with the faults of a seed. Requests
// are sent and faults begin until EVENTS_MS. At HEALED_MS all faults are over, and all accepted events must then land
// within LANDED_MS.
import { eraseEvents } from '../../lib/admin/erase.ts';
import { pruneRows } from '../../lib/admin/prune.ts';
import { dropRows } from '../../lib/admin/quarantine.ts';
import { reconcile } from '../../lib/admin/reconcile.ts';
import { replayRows } from '../../lib/admin/replay.ts';
import type { Session } from '../../lib/admin/session.ts';
import { Random } from '../campaign/random.ts';
import { drawFaults, type Fault, type Kind } from './faults.ts';
import { bodyOf, Invariants, Violation, type Sent } from './invariants.ts';
import { Network } from './network.ts';
import { ENQUEUE_TIMEOUT_MS, Gateway, IN_FLIGHT_MAX, Operator, Replica, type Told } from './programs.ts';
import type { RedisServer } from './redis-server.ts';
import { isNotMaster } from '../../lib/redis/server/server-info.ts';
import { actor, Schedule } from './schedule.ts';
import { drawSends, type Send } from './sends.ts';
import type { Store } from './store.ts';

const EVENTS_MS = 20_000;
const HEALED_MS = 24_000;
const LANDED_MS = 60_000;
const GATEWAYS = 2;
const REPLICAS = 3;
const DAY_AND_AN_HOUR_MS = 25 * 3_600_000;
const FIFTY_HOURS_MS = 50 * 3_600_000;
const HOURS_BACK_MS = 2 * 3_600_000;
/** A consumer that has not stopped after this time is killed. */
const DRAIN_MS = 10_000;
const WATCH_MS = 500;
const ALL_ROWS = { entries: undefined, reason: undefined, sinceMs: undefined };
/** Commands after which a promised event may be missing. */
const MAY_LOSE = new Set(['XACK', 'trim', 'erase']);

export interface Plan {
  readonly seed: number;
  readonly sends: readonly Send[];
  readonly faults: readonly Fault[];
}

export interface Outcome {
  readonly violation: string | undefined;
  readonly trace: readonly string[];
  readonly accepted: number;
}

export interface Parts {
  readonly server: RedisServer;
  readonly store: Store;
}

export function planOf(seed: number, events = 200): Plan {
  const random = new Random(seed);
  const faults = drawFaults(random, EVENTS_MS);
  return { seed, faults, sends: drawSends(random, events, EVENTS_MS) };
}

export async function simulate(parts: Parts, plan: Plan): Promise<Outcome> {
  const run = new Simulation(parts, plan);
  try {
    await run.run();
    return run.outcome(undefined);
  } catch (cause) {
    if (!(cause instanceof Violation)) throw cause;
    return run.outcome(cause.message);
  } finally {
    run.end();
  }
}

interface Request {
  readonly gateway: Gateway;
  readonly id: string;
  readonly receivedMs: number;
  readonly gone: () => void;
}

class Simulation {
  readonly #parts: Parts;
  readonly #plan: Plan;
  readonly #schedule: Schedule;
  readonly #network: Network;
  readonly #invariants: Invariants;
  readonly #random: Random;
  readonly #gateways: Gateway[] = [];
  readonly #replicas: Replica[] = [];
  readonly #outside = actor('outside');
  readonly #requests = new Set<Request>();
  #looks: (() => Promise<void>)[] = [];
  #mayLose = false;
  #sending = 0;

  constructor(parts: Parts, plan: Plan) {
    this.#parts = parts;
    this.#plan = plan;
    const { server, store } = parts;
    this.#random = new Random(plan.seed ^ 0x5eed);
    const schedule = new Schedule(this.#random);
    this.#schedule = schedule;
    this.#invariants = new Invariants(server, store, () => schedule.nowMs);
    this.#network = new Network({ schedule, server, watch: (kind) => (this.#mayLose ||= MAY_LOSE.has(kind)) });
  }

  outcome(violation: string | undefined): Outcome {
    return { violation, trace: this.#schedule.trace, accepted: this.#invariants.accepted };
  }

  end(): void {
    for (const { actor } of [...this.#gateways, ...this.#replicas]) actor.alive = false;
  }

  async run(): Promise<void> {
    const { server, store } = this.#parts;
    await server.begin();
    store.begin(this.#schedule);
    for (let at = 0; at < GATEWAYS; at += 1) this.#startGateway(at);
    for (let at = 0; at < REPLICAS; at += 1) this.#startReplica(at);
    for (const send of this.#plan.sends) this.#later(send.atMs, () => this.#send(send));
    for (const fault of this.#plan.faults) this.#arrange(fault);
    this.#later(HEALED_MS, () => this.#heal());
    this.#watchDeadlines();
    await this.#runTo(HEALED_MS);
    for (let ms = HEALED_MS; ; ms += WATCH_MS) {
      await this.#runTo(ms);
      const open = await this.#invariants.check();
      if (open === 0 && this.#sending === 0 && this.#requests.size === 0) break;
      if (ms >= HEALED_MS + LANDED_MS)
        throw new Violation(
          `${open} events have not landed ${LANDED_MS} ms after the last fault (${this.#sending} are being sent)`,
        );
    }
    this.#invariants.end();
    for (const gateway of this.#gateways)
      if (gateway.admitted !== 0)
        throw new Violation(`${gateway.actor.name} holds ${gateway.admitted} events that are answered`);
  }

  async #runTo(endMs: number): Promise<void> {
    while (await this.#schedule.step(endMs)) {
      for (const look of this.#looks.splice(0)) await look();
      if (this.#mayLose) {
        this.#mayLose = false;
        await this.#invariants.check();
      }
    }
  }

  #later(ms: number, run: () => unknown): void {
    this.#schedule.park(this.#outside, ms, '', run);
  }

  #startGateway(at: number): void {
    this.#gateways[at] = new Gateway(this.#world, `gateway-${at}`);
  }

  get #world() {
    return { schedule: this.#schedule, network: this.#network, store: this.#parts.store };
  }

  #startReplica(at: number): void {
    const replica = new Replica(this.#world, `consumer-${at}`);
    this.#replicas[at] = replica;
    void replica.start().then((started) => {
      if (!started) this.#restartReplica(at, 1_000);
    });
  }

  #restartReplica(at: number, afterMs: number): void {
    const replica = this.#replicas[at];
    if (replica?.actor.alive === true) {
      replica.actor.alive = false;
      this.#network.cut(replica.actor);
    }
    this.#later(afterMs, () => {
      if (this.#replicas[at] === replica) this.#startReplica(at);
    });
  }

  #restartGateway(at: number, afterMs: number): void {
    const gateway = this.#gateways[at];
    if (gateway?.actor.alive !== true) return;
    gateway.actor.alive = false;
    this.#network.cut(gateway.actor);
    for (const request of this.#requests) {
      if (request.gateway !== gateway) continue;
      this.#requests.delete(request);
      request.gone();
    }
    this.#later(afterMs, () => this.#startGateway(at));
  }

  #send(send: Send): void {
    this.#sending += 1;
    if (send.kind === 'look up') this.#lookUp(send);
    else this.#post(send, 0);
  }

  #post(send: Send, tries: number): void {
    const sent: Sent = { ...send, sentMs: this.#schedule.nowMs };
    this.#invariants.sent(sent);
    const again = (): void => this.#later(this.#random.between(50, 1_500), () => this.#post(send, tries + 1));
    const text = bodyOf(send, send.id.startsWith('poison') ? ',"poison":1' : '');
    this.#request(
      send,
      again,
      (gateway, told) => gateway.post(send.producer, text, told),
      async (answer) => {
        await this.#invariants.answered(sent, answer);
        if (answer.status === 503) again();
        else this.#sending -= 1;
        if (answer.status !== 503 && answer.status !== 202 && answer.status !== 409)
          throw new Violation(`a POST of ${send.id} was answered ${answer.status}`);
      },
    );
  }

  #lookUp(send: Send): void {
    const done = (): void => void (this.#sending -= 1);
    let before = this.#invariants.lookUp(send);
    this.#request(
      send,
      done,
      (gateway, told) => {
        before = this.#invariants.lookUp(send);
        gateway.find(send.producer, send.id, told);
      },
      (answer) => {
        done();
        this.#invariants.found(send, before, answer);
      },
    );
  }

  #request(
    send: Send,
    gone: () => void,
    ask: (gateway: Gateway, told: (answer: Told) => void) => void,
    answered: (answer: Told) => void | Promise<void>,
  ): void {
    const gateway = this.#gateways[Math.floor(send.which * GATEWAYS)];
    if (gateway?.actor.alive !== true) {
      this.#later(100, gone);
      return;
    }
    let request: Request = { gateway, id: send.id, receivedMs: Number.POSITIVE_INFINITY, gone };
    this.#requests.add(request);
    // Requests that are sent at the same time arrive in one turn.
    this.#schedule.park(gateway.actor, 0.1, '', () => {
      this.#requests.delete(request);
      request = { ...request, receivedMs: send.kind === 'look up' ? Number.POSITIVE_INFINITY : this.#schedule.nowMs };
      this.#requests.add(request);
      ask(gateway, (answer) => {
        this.#requests.delete(request);
        this.#schedule.note(`${gateway.actor.name} ${send.kind} ${send.id} ${answer.status}`);
        // The checks run after this step, so that a violation is not thrown into the product.
        this.#looks.push(async () => {
          this.#assertInTime(request);
          await answered(answer);
        });
      });
      if (gateway.admitted > Math.min(gateway.open, IN_FLIGHT_MAX))
        throw new Violation(
          `${gateway.actor.name} has ${gateway.admitted} events in flight and ${gateway.open} requests`,
        );
    });
  }

  #assertInTime({ gateway, receivedMs }: Request): void {
    const lateMs = this.#schedule.nowMs - receivedMs - ENQUEUE_TIMEOUT_MS;
    if (lateMs > 1 && gateway.actor.thawsMs < receivedMs)
      throw new Violation(`a submission to ${gateway.actor.name} was answered ${lateMs} ms late`);
  }

  #watchDeadlines(): void {
    this.#later(WATCH_MS, () => {
      for (const request of this.#requests) this.#assertInTime(request);
      this.#watchDeadlines();
    });
  }

  #arrange(fault: Fault): void {
    const { server } = this.#parts;
    const tailMs = 5 + fault.which * 990;
    if (fault.kind === 'power loss' || fault.kind === 'promotion')
      this.#later(fault.atMs - tailMs, () => server.snapshot(this.#schedule.nowMs));
    this.#later(fault.atMs, async () => {
      this.#schedule.note(`fault ${fault.kind}`);
      const end = await this.#begin(fault);
      if (end !== undefined) this.#later(Math.min(fault.forMs, HEALED_MS - 1 - this.#schedule.nowMs), end);
    });
  }

  /** Begins a fault. Returns the function that ends it, if it lasts. */
  async #begin({ kind, forMs, which }: Fault): Promise<(() => unknown) | undefined> {
    const { server, store } = this.#parts;
    const { nowMs } = this.#schedule;
    const gatewayAt = Math.floor(which * GATEWAYS);
    const replicaAt = Math.floor(which * REPLICAS);
    const programs = [...this.#gateways, ...this.#replicas];
    const program = programs[Math.floor(which * programs.length)]?.actor;
    const set = (...command: string[]) => server.set(this.#schedule.nowMs, ...command);
    const loseTail = async (): Promise<() => void> => {
      const start = await this.#killServer();
      await server.loseTail(nowMs);
      await this.#invariants.lostTail();
      return start;
    };
    const clockOff = (byMs: number) => {
      this.#invariants.variantsMayDiffer = true;
      server.offMs += byMs;
      return () => (server.offMs -= byMs);
    };
    // A shorter freeze must not end a longer one early, because that would reorder the steps.
    const freeze = ({ actor }: Gateway | Replica): void =>
      void (actor.thawsMs = Math.max(actor.thawsMs, Math.min(nowMs + forMs, HEALED_MS)));
    const begins: Readonly<Record<Kind, () => unknown>> = {
      cut: () => this.#network.cut(program),
      'slow link': () => {
        if (program === undefined) return undefined;
        this.#network.slowMs.set(program, 2_500 * this.#random.fraction());
        return () => this.#network.slowMs.delete(program);
      },
      'forget scripts': () => set('SCRIPT', 'FLUSH'),
      'kill server': () => this.#killServer(),
      'power loss': () => loseTail(),
      promotion: () => loseTail(),
      'still server': () => void (this.#network.stillMs = Math.max(this.#network.stillMs, nowMs + forMs)),
      full: async () => {
        await set('CONFIG', 'SET', 'maxmemory', '1');
        return () => set('CONFIG', 'SET', 'maxmemory', '0');
      },
      'read-only': async () => {
        await set('REPLICAOF', '127.0.0.1', '1');
        return () => set('REPLICAOF', 'NO', 'ONE');
      },
      'clock ahead': () => clockOff(DAY_AND_AN_HOUR_MS),
      'clock back': () => clockOff(-HOURS_BACK_MS),
      'a day passes': () => this.#pass(DAY_AND_AN_HOUR_MS),
      'kill gateway': () => this.#restartGateway(gatewayAt, forMs),
      'freeze gateway': () => this.#gateways.slice(gatewayAt, gatewayAt + 1).forEach(freeze),
      'freeze consumer': () => this.#replicas.slice(replicaAt, replicaAt + 1).forEach(freeze),
      'kill consumer': () => this.#restartReplica(replicaAt, forMs),
      'stop consumer': () => {
        const replica = this.#replicas[replicaAt];
        const gone = (): void => {
          if (replica?.actor.alive === true) this.#restartReplica(replicaAt, forMs);
        };
        void replica?.stop().then(gone);
        this.#later(DRAIN_MS, gone);
      },
      'warehouse away': () => void (store.awayMs = nowMs + forMs),
      'warehouse slow': () => {
        store.slowMs = 6_000;
        return () => (store.slowMs = 0);
      },
      'commit unknown': () => {
        store.unknown = true;
        return () => (store.unknown = false);
      },
      delete: async () => {
        const asked = new Set([...this.#requests].map(({ id }) => id));
        const remove = (entry: string): Promise<boolean> =>
          set('XDEL', 'ingest', entry).then(
            () => true,
            (cause: unknown) => {
              if (isNotMaster(cause)) return false;
              throw cause;
            },
          );
        await this.#invariants.delete((id) => asked.has(id), which, remove);
      },
      replay: () => {
        store.cured = true;
        this.#operate((session) => replayRows(session, ALL_ROWS));
      },
      erase: () => {
        const id = this.#invariants.erase(which);
        if (id !== undefined) this.#operate((session) => eraseEvents(session, [id]));
      },
      drop: () => {
        const entries = this.#invariants.drop();
        if (entries.length > 0) this.#operate((session) => dropRows(session, { ...ALL_ROWS, entries }));
      },
      prune: () => {
        if (this.#schedule.wallOffMs < FIFTY_HOURS_MS) this.#pass(FIFTY_HOURS_MS);
        this.#invariants.prune(this.#schedule.wallOffMs);
        this.#operate((session) => pruneRows(session, { table: 'events', beforeMs: session.clock.epochMs() }));
      },
      'land again': () =>
        this.#operate((session) => reconcile(session, { land: true, rate: 1_000_000, metrics: undefined })),
    };
    const end = await begins[kind]();
    return typeof end === 'function' ? (end as () => unknown) : undefined;
  }

  #pass(ms: number): void {
    this.#invariants.variantsMayDiffer = true;
    this.#schedule.wallOffMs += ms;
    this.#parts.server.offMs += ms;
  }

  #operate(command: (session: Session) => Promise<boolean>): void {
    void new Operator(this.#world, 'operator').run(command).catch(() => undefined);
  }

  /** Kills the server, which loses its connections and scripts. Returns the function that restarts it. */
  async #killServer(): Promise<() => void> {
    const { server } = this.#parts;
    this.#network.up = false;
    this.#network.stillMs = 0;
    this.#network.cut(undefined, false);
    await server.set(this.#schedule.nowMs, 'SCRIPT', 'FLUSH');
    return () => void (this.#network.up = true);
  }

  async #heal(): Promise<void> {
    const { server, store } = this.#parts;
    this.#schedule.note('faults have ended');
    this.#network.up = true;
    this.#network.stillMs = 0;
    this.#network.slowMs.clear();
    server.offMs = this.#schedule.wallOffMs;
    [store.awayMs, store.slowMs, store.unknown] = [0, 0, false];
    await server.set(this.#schedule.nowMs, 'CONFIG', 'SET', 'maxmemory', '0');
    await server.set(this.#schedule.nowMs, 'REPLICAOF', 'NO', 'ONE');
  }
}
