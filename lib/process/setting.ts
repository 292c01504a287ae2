// What a row of the table of settings (settings.ts) can be: the kinds of values, and a constructor for each.
//
// A row is data: it says default, bounds, unit, meaning and programs. How a value is read is in env.ts.
export const PROGRAMS = ['gateway', 'consumer', 'admin', 'send'] as const;
export type Program = (typeof PROGRAMS)[number];

interface Row {
  readonly programs: readonly Program[];
  /** A clause for --help and deploy/configure.md (Markdown code spans), without a full stop. */
  readonly meaning: string;
}

/** A whole number. `unit` is `ms`, `bytes`, or empty where the meaning names what is counted. */
export interface IntegerSetting<D extends number | undefined = number | undefined> extends Row {
  readonly kind: 'integer';
  readonly default: D;
  readonly min: number;
  readonly max: number;
  readonly unit: '' | 'ms' | 'bytes';
}

export interface ChoiceSetting<T extends string = string> extends Row {
  readonly kind: 'choice';
  readonly default: T;
  readonly choices: readonly T[];
}

/** `1` or `0`; off by default. */
export interface FlagSetting extends Row {
  readonly kind: 'flag';
}

/** host:port or [v6]:port; port 0 is any free one. */
export interface AddressSetting<D extends string | undefined = string | undefined> extends Row {
  readonly kind: 'address';
  readonly default: D;
}

/** A URI of one of `schemes` (with their colon). `required` names the programs that do not start without it. */
export interface UriSetting extends Row {
  readonly kind: 'uri';
  readonly schemes: readonly string[];
  readonly required: readonly Program[];
}

/** Any text that is not empty; config.ts checks what only the program knows. */
export interface TextSetting<D extends string | undefined = string | undefined> extends Row {
  readonly kind: 'text';
  readonly default: D;
}

export type Setting = IntegerSetting | ChoiceSetting | FlagSetting | AddressSetting | UriSetting | TextSetting;

export const integer = <const D extends number | undefined>(
  programs: readonly Program[],
  fallback: D,
  [min, max]: readonly [number, number],
  unit: IntegerSetting['unit'],
  meaning: string,
): IntegerSetting<D> => ({ kind: 'integer', programs, default: fallback, min, max, unit, meaning });

export const choice = <const T extends string>(
  programs: readonly Program[],
  choices: readonly T[],
  fallback: NoInfer<T>,
  meaning: string,
): ChoiceSetting<T> => ({ kind: 'choice', programs, default: fallback, choices, meaning });

export const address = <const D extends string | undefined>(
  programs: readonly Program[],
  fallback: D,
  meaning: string,
): AddressSetting<D> => ({ kind: 'address', programs, default: fallback, meaning });

export const uri = (
  programs: readonly Program[],
  schemes: readonly string[],
  required: readonly Program[],
  meaning: string,
): UriSetting => ({ kind: 'uri', programs, schemes, required, meaning });

export const flag = (programs: readonly Program[], meaning: string): FlagSetting => ({
  kind: 'flag',
  programs,
  meaning,
});

export const text = <const D extends string | undefined>(
  programs: readonly Program[],
  fallback: D,
  meaning: string,
): TextSetting<D> => ({ kind: 'text', programs, default: fallback, meaning });
