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

type Kind<V> = Pick<PlainSetting<V>, 'expected' | 'parse'>;

export const setting = <V, D extends V | undefined = undefined>(
  programs: readonly Program[],
  kind: Kind<V>,
  fallback?: D,
): PlainSetting<V | D> => ({ programs, default: fallback as D, ...kind });

export const TEXT: Kind<string> = { expected: 'a text', parse: (text) => text };

export const FLAG: Kind<boolean> = {
  expected: '1 or 0',
  parse: (text) => (text === '1' || text === '0' ? text === '1' : undefined),
};

export const integer = (min: number, max: number): Kind<number> => ({
  expected: `a whole number from ${min} to ${max}`,
  parse: (text) => (/^\d{1,15}$/.test(text) && min <= Number(text) && Number(text) <= max ? Number(text) : undefined),
});

export const choice = <const T extends string>(...choices: readonly T[]): Kind<T> => ({
  expected: `one of ${choices.join(', ')}`,
  parse: (text) => choices.find((one) => one === text),
});

export const textIf = (expected: string, isValid: (text: string) => boolean): Kind<string> => ({
  expected,
  parse: (text) => (isValid(text) ? text : undefined),
});

export const NETWORKS: Kind<BlockList> = {
  expected: 'addresses or networks such as 10.0.0.0/8, separated by commas',
  parse(text) {
    const list = new BlockList();
    for (const item of text.split(',')) {
      const [, address = '', prefix] = /^([0-9A-Fa-f.:]+)(?:\/(\d{1,3}))?$/.exec(item.trim()) ?? [];
      const version = isIP(address);
      const bits = version === 6 ? 128 : 32;
      if (version === 0 || Number(prefix) > bits) return undefined;
      list.addSubnet(address, Number(prefix ?? bits), version === 6 ? 'ipv6' : 'ipv4');
    }
    return list;
  },
};

export const ADDRESS: Kind<BindAddress> = {
  expected: 'host:port or [v6-address]:port, with a port from 0 to 65535',
  parse(text) {
    const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^:[\]\s/]+)):(\d{1,5})$/.exec(text) ?? [];
    const host = v6 ?? name;
    const port = Number(digits);
    return host !== undefined && (v6 === undefined || isIPv6(v6)) && port <= 65535 ? { host, port } : undefined;
  },
};

export const addressText = ({ host, port }: BindAddress): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

export const isLoopback = ({ host }: BindAddress): boolean => /^(127\.\d+\.\d+\.\d+|::1|localhost)$/.test(host);
