// Serves the status page from the production server, with metrics that the test writes.
import { createProcessEndpoints } from '../../lib/http/process-endpoints.ts';
import { problem } from '../../lib/ingest/errors.ts';
import { statusPages } from '../../lib/telemetry/status-page.ts';
import { atEnd } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

export class ServedPage {
  metrics = (): string => '';
  unready: string | undefined;
  url = '';
  #endpoints: ReturnType<typeof createProcessEndpoints> | undefined;

  static async start(): Promise<ServedPage> {
    const served = new ServedPage();
    await served.listen(0);
    atEnd(() => served.stop());
    return served;
  }

  async listen(port = Number(new URL(this.url).port)): Promise<void> {
    const state = {
      draining: () => false,
      unready: () => this.unready,
      unavailable: () => new Map(),
      metrics: () => Promise.resolve({ status: 200, contentType: 'text/plain; version=0.0.4', body: this.metrics() }),
    };
    this.#endpoints = createProcessEndpoints(state, problem, SYSTEM, statusPages());
    const address = await this.#endpoints.listen({ host: '127.0.0.1', port });
    this.url = `http://127.0.0.1:${address.port}/`;
  }

  async stop(): Promise<void> {
    await this.#endpoints?.close();
    this.#endpoints = undefined;
  }
}
