// The kinds of settings in the table in settings.ts.
import { BlockList, isIP, isIPv6 } from 'node:net';

export const PROGRAMS = ['gateway', 'consumer', 'admin', 'send'] as const;
export type Program = (typeof PROGRAMS)[number];

/** An address to listen on. Port 0 means any free port. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/** A setting with a value of the type V. `expected` is the text for problems. */
export interface PlainSetting<V> {
  readonly programs: readonly Program[];
  readonly default: V;
  readonly expected: string;
  /** Returns undefined for a text that is not permitted. */
  readonly parse: (text: string) => V | undefined;
}

/** A URI with one of `schemes`, which include the colon. The programs in `required` do not start without the URI. */
export interface UriSetting {
  readonly programs: readonly Program[];
  readonly schemes: readonly string[];
  readonly required: readonly Program[];
}

export type Setting = UriSetting | PlainSetting<unknown>;

export const uri = (
  programs: readonly Program[],
  schemes: readonly string[],
  required: readonly Program[],
): UriSetting => ({ programs, schemes, required });

const setting = <V>(
  programs: readonly Program[],
  fallback: V,
  expected: string,
  parse: (text: string) => V | undefined,
): PlainSetting<V> => ({ programs, default: fallback, expected, parse });

/** A whole number. A key that ends in `_MS`, `_BYTES` or `_BYTES_MAX` names its unit. */
export const integer = <D extends number | undefined>(
  programs: readonly Program[],
  fallback: D,
  [min, max]: readonly [number, number],
): PlainSetting<number | D> =>
  setting<number | D>(programs, fallback, `a whole number from ${min} to ${max}`, (text) =>
    /^\d{1,15}$/.test(text) && min <= Number(text) && Number(text) <= max ? Number(text) : undefined,
  );

export const choice = <const T extends string>(
  programs: readonly Program[],
  choices: readonly T[],
  fallback: NoInfer<T>,
): PlainSetting<T> =>
  setting<T>(programs, fallback, `one of ${choices.join(', ')}`, (text) => choices.find((one) => one === text));

export const flag = (programs: readonly Program[]): PlainSetting<boolean> =>
  setting(programs, false, '1 or 0', (text) => (text === '1' || text === '0' ? text === '1' : undefined));

export const text = <D extends string | undefined>(
  programs: readonly Program[],
  fallback: D,
  expected = 'a text',
  isValid: (text: string) => boolean = () => true,
): PlainSetting<string | D> =>
  setting<string | D>(programs, fallback, expected, (given) => (isValid(given) ? given : undefined));

/** Addresses and networks, separated by commas. */
export const networks = (programs: readonly Program[]): PlainSetting<BlockList | undefined> =>
  setting(programs, undefined, 'addresses or networks such as 10.0.0.0/8, separated by commas', networksOf);

function networksOf(text: string): BlockList | undefined {
  const list = new BlockList();
  for (const item of text.split(',')) {
    const [, address = '', prefix] = /^([0-9A-Fa-f.:]+)(?:\/(\d{1,3}))?$/.exec(item.trim()) ?? [];
    const version = isIP(address);
    const bits = version === 6 ? 128 : 32;
    if (version === 0 || Number(prefix) > bits) return undefined;
    list.addSubnet(address, Number(prefix ?? bits), version === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

export const address = <D extends BindAddress | undefined>(
  programs: readonly Program[],
  fallback: D,
): PlainSetting<BindAddress | D> =>
  setting<BindAddress | D>(
    programs,
    fallback,
    'host:port or [v6-address]:port, with a port from 0 to 65535',
    addressOf,
  );

/** Parses `host:port` or `[v6]:port`. The host is required. */
function addressOf(text: string): BindAddress | undefined {
  const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^:[\]\s/]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = v6 ?? name;
  const port = Number(digits);
  return host !== undefined && (v6 === undefined || isIPv6(v6)) && port <= 65535 ? { host, port } : undefined;
}

export const addressText = ({ host, port }: BindAddress): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

/** True if only this machine can connect to the address. */
export const isLoopback = ({ host }: BindAddress): boolean => /^(127\.\d+\.\d+\.\d+|::1|localhost)$/.test(host);
