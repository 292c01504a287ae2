// The modules of the status page, which are JavaScript that browsers run, without types.
interface Problem {
  readonly name: string;
  readonly word: string;
  readonly level: string;
  readonly text: string;
  readonly isConsequence: boolean;
}
interface Tile {
  readonly label: string;
  readonly figure: () => number;
  readonly note: () => string;
  readonly rules: readonly string[];
}
interface Page {
  readonly now: { program: string; ready: unknown };
  readonly problems: () => readonly Problem[];
  readonly well: () => string;
  readonly TILES: Readonly<Record<string, readonly Tile[]>>;
  readonly parse: (text: string) => unknown;
  readonly record: (ms: number, figures: unknown) => void;
  readonly figuresOf: (families: unknown, ms: number) => unknown;
}
const modules = ['status-figures.js', 'status-rules.js'].map(
  (name) => new URL(`../../lib/telemetry/${name}`, import.meta.url).href,
);
const [figures, rules] = await Promise.all(modules.map((url) => import(url) as Promise<object>));
const page = { ...figures, ...rules } as Page;

export type { Tile };
export const { problems, well, TILES } = page;
const { now, parse, record, figuresOf } = page;

/** Records one poll of a process, with its answer of `/health/ready`. */
export function poll(program: string, ready: unknown, metrics: string, ms: number): void {
  now.program = program;
  now.ready = ready;
  record(ms, figuresOf(parse(metrics), ms));
}
