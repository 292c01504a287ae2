// The kinds of settings in the table in settings.ts. env.ts parses their values.

export const PROGRAMS = ['gateway', 'consumer', 'admin', 'send'] as const;
export type Program = (typeof PROGRAMS)[number];

/** A whole number. A key that ends in `_MS`, `_BYTES` or `_BYTES_MAX` names its unit. */
export const integer = <const D extends number | undefined>(
  programs: readonly Program[],
  fallback: D,
  [min, max]: readonly [number, number],
) => ({ kind: 'integer', programs, default: fallback, min, max }) as const;

export const choice = <const T extends string>(
  programs: readonly Program[],
  choices: readonly T[],
  fallback: NoInfer<T>,
) => ({ kind: 'choice', programs, default: fallback, choices }) as const;

/** An address, `host:port` or `[v6]:port`. Port 0 means any free port. */
export const address = <const D extends string | undefined>(programs: readonly Program[], fallback: D) =>
  ({ kind: 'address', programs, default: fallback }) as const;

/** A URI with one of `schemes`, which include the colon. The programs in `required` do not start without the URI. */
export const uri = (programs: readonly Program[], schemes: readonly string[], required: readonly Program[]) =>
  ({ kind: 'uri', programs, schemes, required }) as const;

/** A flag, `1` or `0`. The default is `0`. */
export const flag = (programs: readonly Program[]) => ({ kind: 'flag', programs }) as const;

/** Any text that is not empty. The program's config.ts checks everything else. */
export const text = <const D extends string | undefined>(programs: readonly Program[], fallback: D) =>
  ({ kind: 'text', programs, default: fallback }) as const;

export type UriSetting = ReturnType<typeof uri>;
export type Setting =
  | UriSetting
  | ReturnType<typeof integer>
  | ReturnType<typeof choice>
  | ReturnType<typeof address>
  | ReturnType<typeof flag>
  | ReturnType<typeof text>;
