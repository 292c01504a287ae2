// The kinds of rows in the table of settings (settings.ts). env.ts reads their values.
//
// `meaning` is a clause for --help and deploy/configure.md (Markdown code spans), without a full stop.
export const PROGRAMS = ['gateway', 'consumer', 'admin', 'send'] as const;
export type Program = (typeof PROGRAMS)[number];

/** A whole number. `unit` is empty if the meaning names it. */
export const integer = <const D extends number | undefined>(
  programs: readonly Program[],
  fallback: D,
  [min, max]: readonly [number, number],
  unit: '' | 'ms' | 'bytes',
  meaning: string,
) => ({ kind: 'integer', programs, default: fallback, min, max, unit, meaning }) as const;

export const choice = <const T extends string>(
  programs: readonly Program[],
  choices: readonly T[],
  fallback: NoInfer<T>,
  meaning: string,
) => ({ kind: 'choice', programs, default: fallback, choices, meaning }) as const;

/** host:port or [v6]:port; port 0 is any free one. */
export const address = <const D extends string | undefined>(
  programs: readonly Program[],
  fallback: D,
  meaning: string,
) => ({ kind: 'address', programs, default: fallback, meaning }) as const;

/** A URI of one of `schemes` (with their colon). `required` names the programs that do not start without it. */
export const uri = (
  programs: readonly Program[],
  schemes: readonly string[],
  required: readonly Program[],
  meaning: string,
) => ({ kind: 'uri', programs, schemes, required, meaning }) as const;

/** `1` or `0`; off by default. */
export const flag = (programs: readonly Program[], meaning: string) => ({ kind: 'flag', programs, meaning }) as const;

/** Any text that is not empty; config.ts checks what only the program knows. */
export const text = <const D extends string | undefined>(programs: readonly Program[], fallback: D, meaning: string) =>
  ({ kind: 'text', programs, default: fallback, meaning }) as const;

export type UriSetting = ReturnType<typeof uri>;
export type Setting =
  | UriSetting
  | ReturnType<typeof integer>
  | ReturnType<typeof choice>
  | ReturnType<typeof address>
  | ReturnType<typeof flag>
  | ReturnType<typeof text>;
