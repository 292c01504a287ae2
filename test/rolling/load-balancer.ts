// HAProxy with the configuration of deploy/RUNBOOK.md: it passes TLS through and checks readiness every second.
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestProcess } from '../support/gateway.ts';
import { freePort } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { tool } from '../support/tool.ts';
import type { FleetGateway } from './fleet.ts';

const HAPROXY = tool('haproxy', 'haproxy');

const RUNBOOK = readFileSync(new URL('../../deploy/RUNBOOK.md', import.meta.url), 'utf8');

export class LoadBalancer {
  readonly port: number;
  readonly #socket: string;
  readonly #process: TestProcess;

  private constructor(port: number, folder: string, gateways: readonly FleetGateway[], hasBackup: boolean) {
    this.port = port;
    this.#socket = join(folder, 'haproxy.sock');
    const [, backup = ''] = /`(server \S+ \S+ backup)`/.exec(RUNBOOK) ?? [];
    let text = (/^defaults\n[^]*?(?=^```$)/m.exec(RUNBOOK)?.[0] ?? '').replace('bind :', 'bind 127.0.0.1:');
    text = `${text.replace(':8443', `:${port}`)}${hasBackup ? `  ${backup}\n` : ''}`;
    for (const [at, gateway] of gateways.entries())
      text = text
        .replaceAll(`10.0.0.${at + 1}:8443`, `127.0.0.1:${gateway.port}`)
        .replace(`gateway-${at + 1} `, `${nameOf(gateway)} `)
        .replace('port 9470', `port ${gateway.adminPort}`);
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(file, `global\n  stats socket ${this.#socket}\n${text}`);
    this.#process = new TestProcess(HAPROXY, ['-db', '-f', file], {});
  }

  /** `hasBackup`: with the server of the page that has no check. */
  static async start(gateways: readonly FleetGateway[], hasBackup = false): Promise<LoadBalancer> {
    const balancer = new LoadBalancer(await freePort(), temporaryFolder(), gateways, hasBackup);
    await Promise.all(gateways.map((gateway) => balancer.up(gateway)));
    return balancer;
  }

  up(gateway: FleetGateway): Promise<boolean> {
    return this.#shows(gateway, /,UP,.*,L7OK,/);
  }

  down(gateway: FleetGateway): Promise<boolean> {
    return this.#shows(gateway, /,DOWN,/);
  }

  #shows(gateway: FleetGateway, state: RegExp): Promise<boolean> {
    return eventually(`${nameOf(gateway)} is ${state} for the balancer`, async () => {
      if (this.#process.child.exitCode !== null) throw new Error(this.#process.output);
      const line = (await this.#status()).split('\n').find((one) => one.startsWith(`gateways,${nameOf(gateway)},`));
      return state.test(line ?? '');
    });
  }

  #status(): Promise<string> {
    return text(connect(this.#socket).end('show stat\n'));
  }
}

const nameOf = ({ port }: FleetGateway): string => `gateway-${port}`;
