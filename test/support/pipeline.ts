// A gateway and consumers as real processes with a queue, a warehouse and development certificates.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestClient, type Ask } from './client.ts';
import type { ClientCertificate } from './pki.ts';
import { Program } from './program.ts';
import { freePort } from './redis.ts';
import { temporaryFolder } from './scope.ts';

export interface PipelineOptions {
  readonly queueUri: string;
  readonly warehouseUri: string;
  readonly replicas?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** The gateway's warehouse. The default is the consumers' warehouse, and an empty string means none. */
  readonly gatewayWarehouseUri?: string;
}

export interface Replica {
  readonly program: Program;
  readonly url: string;
}

export interface Found {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly text: string;
}

export async function metricOf({ url }: Replica, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

export async function readiness({
  url,
}: Replica): Promise<{ readonly status: number; readonly body: Readonly<Record<string, unknown>> }> {
  const response = await fetch(`${url}/health/ready`);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

export class Pipeline {
  readonly stateDir = temporaryFolder('ingest-state-');
  readonly replicas: Replica[] = [];
  readonly #options: PipelineOptions;
  readonly #started: Program[] = [];
  #gateway: Program | undefined;
  #port = 0;
  #client: TestClient | undefined;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  static async start(options: PipelineOptions): Promise<Pipeline> {
    const pipeline = new Pipeline(options);
    try {
      pipeline.#port = await freePort();
      await Promise.all([
        pipeline.startGateway(),
        ...Array.from({ length: options.replicas ?? 1 }, () => pipeline.startConsumer()),
      ]);
      return pipeline;
    } catch (cause) {
      await pipeline.stop();
      throw cause;
    }
  }

  get gateway(): Program {
    if (this.#gateway === undefined) throw new Error('the gateway was not started');
    return this.#gateway;
  }

  get url(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  async startGateway(): Promise<Program> {
    const { queueUri, warehouseUri, gatewayWarehouseUri = warehouseUri, env } = this.#options;
    this.#gateway = this.#track(
      new Program('ingest-gateway', {
        env: {
          INGEST_QUEUE_URI: queueUri,
          INGEST_GATEWAY_ADDR: `127.0.0.1:${this.#port}`,
          INGEST_STATE_DIR: this.stateDir,
          INGEST_WAREHOUSE_URI: gatewayWarehouseUri,
          ...env,
        },
      }),
    );
    await this.#gateway.listening();
    return this.#gateway;
  }

  async startConsumer(env: Readonly<Record<string, string>> = {}): Promise<Replica> {
    const program = this.beginConsumer(env);
    const replica = { program, url: await program.listening() };
    this.replicas.push(replica);
    return replica;
  }

  /** Starts a consumer without waiting until it listens, because it may refuse to start. */
  beginConsumer(env: Readonly<Record<string, string>> = {}): Program {
    return this.#track(
      new Program('ingest-consumer', {
        env: {
          INGEST_QUEUE_URI: this.#options.queueUri,
          INGEST_WAREHOUSE_URI: this.#options.warehouseUri,
          INGEST_CONSUMER_ADDR: '127.0.0.1:0',
          ...this.#options.env,
          ...env,
        },
      }),
    );
  }

  send(args: readonly string[], input?: Buffer | string): Program {
    return this.#track(
      new Program('ingest-send', {
        env: { INGEST_STATE_DIR: this.stateDir },
        args: ['--url', this.url, ...args],
        cwd: this.stateDir,
        ...(input === undefined ? {} : { input }),
      }),
    );
  }

  post(body: Buffer | string): Promise<Found> {
    const headers = { 'content-type': 'application/json' };
    return this.#ask({ method: 'POST', path: '/events', body, headers });
  }

  ready(): Promise<Found> {
    return this.#ask({ path: '/health/ready' });
  }

  find(id: string): Promise<Found> {
    return this.#ask({ path: `/events/${encodeURIComponent(id)}` });
  }

  async stop(): Promise<void> {
    this.#client?.close();
    await Promise.all(this.#started.map((program) => program.kill()));
  }

  #track(program: Program): Program {
    this.#started.push(program);
    return program;
  }

  async #ask(ask: Ask): Promise<Found> {
    const pem = (name: string): string => readFileSync(join(this.stateDir, 'tls', name), 'utf8');
    const producer = (): ClientCertificate => ({ cert: pem('producer.pem'), key: pem('producer-key.pem'), serial: '' });
    this.#client ??= new TestClient(this.#port, pem('ca.pem'), producer());
    const { status, json = {}, body } = await this.#client.ask({ ...ask, signal: AbortSignal.timeout(10_000) });
    return { status, body: json, text: body };
  }
}
