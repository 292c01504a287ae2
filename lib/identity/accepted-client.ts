// Whether the client of a TLS connection is one of those that are named: for programs that know their clients by name.
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import type { Log } from '../process/log.ts';
import type { ClientTrust } from './client-trust.ts';
import { alternativeNames } from './producer-identity.ts';
import type { Reloadable } from '../process/reloadable.ts';
import { tlsReloadable, type TlsFiles, type TlsMaterial } from './tls-material.ts';

/**
 * Why the client is not accepted, in words that it may see; undefined when it is. It must be trusted now, and one of
 * its URI names, DNS names or common names must be among `names`. Trust rests on the authorities' file alone, so that
 * it can be asked again at any time: intermediates belong into that file.
 */
export function clientRefusal(
  socket: TLSSocket,
  trust: ClientTrust,
  names: readonly string[],
  nowMs: number,
): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return 'a client certificate is required';
  if (!socket.authorized) return `the client certificate is not accepted (${String(socket.authorizationError)})`;
  const verdict = trust.judge(certificate, false, nowMs);
  if (!verdict.trusted) return `the client certificate is not accepted (${verdict.why})`;
  const { uris, dnsNames } = alternativeNames(certificate.subjectAltName ?? '');
  const common: unknown = certificate.toLegacyObject().subject?.CN;
  const found = [...uris, ...dnsNames, ...[common].flat().filter((name) => typeof name === 'string')];
  if (found.some((name) => names.includes(name))) return undefined;
  return `no name in the client certificate is in INGEST_DISPATCH_CLIENTS (${found.join(', ')})`;
}

interface NamedClientsFiles extends TlsFiles {
  readonly clients: readonly string[];
}

/** TLS material of a server that knows its clients by name, and who is admitted by it. */
export class NamedClientsTls {
  readonly #files: NamedClientsFiles;
  readonly #clock: Clock;
  readonly #material: Reloadable<TlsMaterial>;

  /** Throws a StartFailure that names every file that cannot be used. */
  static async read(files: NamedClientsFiles, clock: Clock): Promise<NamedClientsTls> {
    return new NamedClientsTls(files, await tlsReloadable(files, clock), clock);
  }

  private constructor(files: NamedClientsFiles, material: Reloadable<TlsMaterial>, clock: Clock) {
    this.#files = files;
    this.#material = material;
    this.#clock = clock;
  }

  get context(): SecureContextOptions {
    return this.#material.value.context;
  }

  /** See clientRefusal; by the trust that is in use now. */
  readonly refusal = (socket: TLSSocket): string | undefined =>
    clientRefusal(socket, this.#material.value.trust, this.#files.clients, this.#clock.epochMs());

  /** Seconds until each file expires. */
  get expiry(): { labels: { file: string }; value: number }[] {
    return this.#material.value.expiry.map(({ file, atMs }) => ({
      labels: { file },
      value: Math.round((atMs - this.#clock.epochMs()) / 1000),
    }));
  }

  /** Takes changed files into use. */
  watch(log: Log, onChange: () => void, onRefused: () => void) {
    const material = this.#material;
    const onOutcome = (good: boolean): void => (good ? onChange() : onRefused());
    material.watch({ kind: 'tls', clock: this.#clock, log, onChange: () => undefined, onOutcome });
    return { now: () => material.reload(), stop: () => material.stop() };
  }
}
