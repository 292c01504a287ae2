import type { TestClient } from './client.ts';

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export class Scrape {
  readonly text: string;
  readonly samples: readonly Sample[];

  constructor(text: string) {
    this.text = text;
    this.samples = text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
        if (match === null) throw new Error(`no sample: ${line}`);
        const [, name = '', labels = '', value] = match;
        const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', text = '']) => [
          label,
          text,
        ]);
        return {
          name,
          labels: Object.fromEntries(pairs) as Record<string, string>,
          value: Number(value === '+Inf' ? Infinity : value),
        };
      });
  }

  static async of(client: TestClient): Promise<Scrape> {
    const { status, body } = await client.ask({ path: '/metrics' });
    if (status !== 200) throw new Error(`/metrics answered ${status}`);
    return new Scrape(body);
  }

  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels);
    return this.samples
      .filter((sample) => sample.name === name && wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((total, { value }) => total + value, 0);
  }
}
