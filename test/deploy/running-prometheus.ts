// Runs Prometheus with the shipped alerts. Their windows and `for` are shortened to seconds, but expressions,
// thresholds and labels are unchanged.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../support/free-port.ts';
import { TestProcess } from '../support/gateway.ts';
import { temporaryFolder } from '../support/scope.ts';
import { deployFile } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

interface Alert {
  readonly state: 'pending' | 'firing';
  readonly labels: Readonly<Record<string, string>>;
}

const shortened = (rules: string, windowS: number, forS: number): string =>
  rules.replaceAll(/\[\d+[mhd]\]/g, `[${windowS}s]`).replaceAll(/for: \d+[mhd]/g, `for: ${forS}s`);

export class RunningPrometheus {
  readonly url: string;

  private constructor(url: string) {
    this.url = url;
  }

  /** `targets` maps each job to its host and port. */
  static async start(targets: Readonly<Record<string, string>>): Promise<RunningPrometheus> {
    const folder = temporaryFolder('prometheus-');
    const jobs = Object.entries(targets).map(([job, target]) => ({
      job_name: job,
      static_configs: [{ targets: [target] }],
    }));
    const config = {
      global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
      rule_files: ['alerts.yml'],
      scrape_configs: jobs,
    };
    writeFileSync(join(folder, 'alerts.yml'), shortened(deployFile('alerts.yml'), 20, 2));
    writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config));
    const address = `127.0.0.1:${await freePort()}`;
    const files = [`--config.file=${join(folder, 'prometheus.yml')}`, `--storage.tsdb.path=${join(folder, 'data')}`];
    const args = [...files, `--web.listen-address=${address}`];
    const server = new TestProcess(tool('prometheus', 'prometheus'), args, {});
    await server.line(/Server is ready/);
    return new RunningPrometheus(`http://${address}`);
  }

  async firing(): Promise<ReadonlySet<string>> {
    const response = await fetch(`${this.url}/api/v1/alerts`);
    const { data } = (await response.json()) as { data: { alerts: readonly Alert[] } };
    return new Set(data.alerts.flatMap(({ state, labels }) => (state === 'firing' ? (labels['alertname'] ?? []) : [])));
  }
}
