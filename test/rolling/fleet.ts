// Two gateways on one queue that are restarted one after the other, by the procedure of deploy/RUNBOOK.md ("Rolling restart"), and what
// must hold meanwhile: no request of a producer that never tries again fails, and every accepted event is on the queue.
import assert from 'node:assert/strict';
import { GATEWAY, PATIENT, TestClient, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { PacedLoad } from './paced-load.ts';

/** The suite's short form shares its machine with other tests; make rolling-restart sends 1,000 a second. */
const PER_SECOND = Number(process.env['ROLLING_PER_SECOND'] ?? 200);
/** Events between two restarts: each gateway takes load in its turn. */
const EVENTS_BETWEEN = 1.5 * PER_SECOND;
/** Connections that the producers keep. First in, first out: none of them is idle for long. */
const CONNECTIONS = { maxSockets: 40, scheduling: 'fifo' };

export interface FleetGateway {
  readonly port: number;
  readonly adminPort: number;
  process: TestProcess;
}

export class Fleet {
  readonly redis: TestRedis;
  readonly pki: Pki;
  readonly gateways: readonly FleetGateway[];
  readonly #env: Readonly<Record<string, string>>;

  private constructor(
    redis: TestRedis,
    pki: Pki,
    ports: readonly (readonly [number, number])[],
    env: Readonly<Record<string, string>>,
  ) {
    this.redis = redis;
    this.pki = pki;
    this.#env = env;
    this.gateways = ports.map(([port, adminPort]) => ({ port, adminPort, process: this.#start(port, adminPort) }));
  }

  /** Two gateways; `sharedPort`: both listen on one port. */
  static async start(sharedPort: boolean, env: Readonly<Record<string, string>>): Promise<Fleet> {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const [one, other, adminOne, adminOther] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
    const fleet = new Fleet(
      redis,
      pki,
      [
        [one, adminOne],
        [sharedPort ? one : other, adminOther],
      ],
      env,
    );
    await Promise.all(fleet.gateways.map((gateway) => fleet.ready(gateway)));
    return fleet;
  }

  /** Restarts each gateway `times` times under load through `port`; `settled` ends when the next one may be restarted. */
  async restartUnderLoad(
    port: number,
    times: number,
    settled: (gateway: FleetGateway) => Promise<unknown>,
  ): Promise<PacedLoad> {
    const producer = await this.pki.producer('shop');
    const client = new TestClient(port, this.pki.authority.certificate, producer, CONNECTIONS as never);
    const load = new PacedLoad(client, PER_SECOND);
    const more = (): Promise<boolean> => {
      const wanted = load.accepted.length + EVENTS_BETWEEN;
      return eventually('more events are accepted', () => load.accepted.length >= wanted, 60_000);
    };
    await more();
    for (let round = 0; round < times; round += 1) {
      for (const gateway of this.gateways) {
        gateway.process.signal('SIGTERM');
        assert.deepEqual(await gateway.process.exited(), { code: 0, signal: null }, gateway.process.output);
        gateway.process = this.#start(gateway.port, gateway.adminPort);
        await this.ready(gateway);
        await settled(gateway);
        await more();
      }
    }
    return load.stop();
  }

  ready({ adminPort, process }: FleetGateway): Promise<boolean> {
    return eventually(`the gateway with admin port ${adminPort} is ready`, async () => {
      if (process.child.exitCode !== null) throw new Error(process.output);
      return (await fetch(`http://127.0.0.1:${adminPort}/health/ready`)).ok;
    });
  }

  /** No request failed, and everything that was accepted is on the queue, once. */
  async assertNothingLost(load: PacedLoad): Promise<void> {
    assert.deepEqual(load.failures, []);
    assert.equal(load.accepted.length, load.sent);
    const entries = await this.redis.entries();
    const queued = entries.map(({ fields }) => (JSON.parse(fields['body'] ?? '{}') as { id: string }).id);
    assert.deepEqual(queued.toSorted(), load.accepted.toSorted());
  }

  #start(port: number, adminPort: number): TestProcess {
    return new TestProcess(GATEWAY, [], {
      ...PATIENT,
      ...this.pki.environment,
      INGEST_QUEUE_URI: this.redis.uri,
      INGEST_STATE_DIR: temporaryFolder('ingest-state-'),
      INGEST_GATEWAY_ADDR: `127.0.0.1:${port}`,
      INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
      ...this.#env,
    });
  }
}
