// HAProxy configured as in deploy/RUNBOOK.md: it passes TLS through and checks readiness every second.
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { TestProcess } from '../support/gateway.ts';
import { freePort } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import type { FleetGateway } from './fleet.ts';

const HAPROXY = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['haproxy', 'haproxy'], {
  encoding: 'utf8',
}).trim();

export class LoadBalancer {
  readonly port: number;
  readonly #socket: string;
  readonly #process: TestProcess;

  private constructor(port: number, folder: string, gateways: readonly FleetGateway[]) {
    this.port = port;
    this.#socket = join(folder, 'haproxy.sock');
    const servers = gateways.map(
      (gateway) =>
        `  server ${nameOf(gateway)} 127.0.0.1:${gateway.port} check port ${gateway.adminPort} inter 1s fall 1 rise 1`,
    );
    const file = join(folder, 'haproxy.cfg');
    writeFileSync(
      file,
      `global
  stats socket ${this.#socket}
defaults
  mode tcp
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend producers
  bind 127.0.0.1:${port}
  default_backend gateways
backend gateways
  balance roundrobin
  option httpchk GET /health/ready
  http-check expect status 200
${servers.join('\n')}
`,
    );
    this.#process = new TestProcess(HAPROXY, ['-db', '-f', file], {});
  }

  static async start(gateways: readonly FleetGateway[]): Promise<LoadBalancer> {
    const balancer = new LoadBalancer(await freePort(), temporaryFolder(), gateways);
    await Promise.all(gateways.map((gateway) => balancer.up(gateway)));
    return balancer;
  }

  up(gateway: FleetGateway): Promise<boolean> {
    return eventually(`${nameOf(gateway)} is up for the balancer`, async () => {
      if (this.#process.child.exitCode !== null) throw new Error(this.#process.output);
      const line = (await this.#status()).split('\n').find((one) => one.startsWith(`gateways,${nameOf(gateway)},`));
      return /,UP,.*,L7OK,/.test(line ?? '');
    });
  }

  #status(): Promise<string> {
    return text(connect(this.#socket).end('show stat\n'));
  }
}

const nameOf = ({ port }: FleetGateway): string => `gateway-${port}`;
