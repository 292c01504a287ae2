// Parses the environment into a program's typed settings. Reading them never throws. All problems are collected in one
// report, each with the key, the value (secrets masked) and the expectation, so that an operator can correct all of
// them together.
import type { LogLevel } from './log.ts';
import { errno, fileFault, readOperatorFileOnce, textOf } from './operator-file.ts';
import type { PlainSetting, Program, UriSetting } from './setting-kinds.ts';
import { KNOWN_KEYS, RETIRED, settingsOf, type Key, type SETTINGS } from './settings.ts';
import { expectedUri, isUnencrypted, postgresFiles, quotedValue, uriFault } from './uri.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** `config` is undefined if there are problems, which are lines such as `KEY=value: expected 1 or 0`. */
export interface ReadConfig<C> {
  readonly config: C | undefined;
  readonly report: { readonly problems: readonly string[]; readonly warnings: readonly string[] };
  /** Only a daemon has it. */
  readonly log: LogLevel;
}

type Value<S> = S extends { readonly default: infer V } ? V : string | undefined;

/** One program's settings. Invalid values are replaced with defaults, so that rules between settings can be checked. */
export class Settings {
  readonly #environment: Environment;
  readonly #values = new Map<Key, unknown>();
  readonly #problems: string[] = [];
  readonly #warnings: string[] = [];

  constructor(environment: Environment, program: Program) {
    this.#environment = environment;
    for (const [key, setting] of settingsOf(program))
      this.#values.set(key, 'schemes' in setting ? this.#uri(key, setting, program) : this.#plain(key, setting));
  }

  get<K extends Key>(key: K): Value<(typeof SETTINGS)[K]> {
    if (!this.#values.has(key)) throw new Error(`${key} is not a setting of this program`);
    return this.#values.get(key) as Value<(typeof SETTINGS)[K]>;
  }

  given(key: Key): boolean {
    return this.#text(key) !== undefined;
  }

  /** Adds a problem that only the caller can detect, such as two values that contradict each other. */
  problem(key: Key | `${Key}_FILE` | `OTEL_${string}`, expected: string, value = this.#environment[key]): undefined {
    const setting = value === undefined || value === '' ? key : `${key}=${quotedValue(key, value)}`;
    this.#problems.push(`${setting}: ${expected}`);
  }

  /** Adds the problem that a URI is missing, which ingest-admin needs for some of its commands only. */
  missing(key: Key, schemes: readonly string[]): undefined {
    const form = `${expectedUri(schemes)} (or ${key}_FILE, the path of a file that holds it)`;
    return this.problem(key, `is required: ${form}`, '');
  }

  warning(text: string): void {
    this.#warnings.push(text);
  }

  read<C extends object>(config: C): ReadConfig<Readonly<C>> {
    return {
      config: this.#problems.length === 0 ? Object.freeze(config) : undefined,
      report: { problems: this.#problems, warnings: [...this.#warnings, ...unknownKeys(this.#environment)] },
      log: this.#values.get('INGEST_LOG_LEVEL') as LogLevel,
    };
  }

  #text(key: string): string | undefined {
    const value = this.#environment[key];
    return value === '' ? undefined : value;
  }

  #plain(key: Key, { parse, expected, default: fallback }: PlainSetting<unknown>): unknown {
    const text = this.#text(key);
    return text === undefined ? fallback : (parse(text) ?? this.problem(key, `expected ${expected}`) ?? fallback);
  }

  /** Returns the URI from `key`, or from the file that `key_FILE` names, such as a mounted secret. */
  #uri(key: Key, { schemes, required }: UriSetting, program: Program): string | undefined {
    const fileKey = `${key}_FILE` as const;
    const path = this.#text(fileKey);
    let value = this.#text(key);
    if (path !== undefined) {
      if (value !== undefined) return this.problem(fileKey, `only one of ${key} and ${fileKey} may be set`);
      try {
        value = textOf(readOperatorFileOnce(path)).trim();
      } catch (cause) {
        return this.problem(fileKey, `expected a readable file (${errno(cause)})`);
      }
      if (value === '') return this.problem(fileKey, 'the file is empty; it must hold the URI');
    }
    if (value === undefined) return required.includes(program) ? this.missing(key, schemes) : undefined;
    const fault = uriFault(value, schemes);
    if (fault !== undefined) return this.problem(key, fault, value);
    for (const [name, path] of postgresFiles(value)) {
      const unreadable = fileFault(path);
      if (unreadable !== undefined)
        return this.problem(key, `expected ${name} to name a readable regular file (${unreadable})`, value);
    }
    if (isUnencrypted(value))
      this.warning(`${key}: the connection to another machine is not encrypted; add ?sslmode=verify-full`);
    return value;
  }
}

function unknownKeys(environment: Environment): string[] {
  // Kubernetes describes each Service of the namespace in variables, which begin with its name.
  const services = Object.keys(environment).flatMap((key) => /^(INGEST_\w+)_SERVICE_HOST$/.exec(key)?.[1] ?? []);
  const isOfService = (key: string): boolean =>
    services.some((name) => key.startsWith(`${name}_`) && /^(?:SERVICE|PORT)(?:_|$)/.test(key.slice(name.length + 1)));
  const unknown = Object.keys(environment).filter(
    (key) => key.startsWith('INGEST_') && !KNOWN_KEYS.includes(key) && !isOfService(key),
  );
  return unknown.map((key) => {
    if (key in RETIRED) return `${key} has no effect since an earlier version: ${RETIRED[key]}; remove the key`;
    const difference = (other: string): number => missingPairs(key, other) + missingPairs(other, key);
    const [nearest] = KNOWN_KEYS.toSorted((one, other) => difference(one) - difference(other));
    return `${key} is not a known key; the nearest one is ${nearest}`;
  });
}

/** Counts the pairs of neighboring characters that the other key does not contain. */
const missingPairs = (key: string, other: string): number =>
  Array.from(key, (_, at) => key.slice(at, at + 2)).filter((pair) => !other.includes(pair)).length;
