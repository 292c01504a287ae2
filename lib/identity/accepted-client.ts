// Whether the client of a TLS connection is one of those that are named: for programs that know their clients by name.
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import { lookAt, type FileWatch, type Look } from '../process/file-watch.ts';
import type { Log } from '../process/log.ts';
import type { ClientTrust } from './client-trust.ts';
import { alternativeNames } from './producer-identity.ts';
import { tlsMaterial, tlsPaths, watchTlsMaterial, type TlsFiles, type TlsMaterial } from './tls-material.ts';

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
  readonly #before: Look;
  readonly #clock: Clock;
  #material: TlsMaterial;

  /** Throws a StartFailure that names every file that cannot be used. */
  static async read(files: NamedClientsFiles, clock: Clock): Promise<NamedClientsTls> {
    const before = await lookAt(tlsPaths(files));
    return new NamedClientsTls(files, before, await tlsMaterial(files, clock.epochMs()), clock);
  }

  private constructor(files: NamedClientsFiles, before: Look, material: TlsMaterial, clock: Clock) {
    this.#files = files;
    this.#before = before;
    this.#material = material;
    this.#clock = clock;
  }

  get context(): SecureContextOptions {
    return this.#material.context;
  }

  /** See clientRefusal; by the trust that is in use now. */
  readonly refusal = (socket: TLSSocket): string | undefined =>
    clientRefusal(socket, this.#material.trust, this.#files.clients, this.#clock.epochMs());

  /** Seconds until each file expires. */
  get expiry(): { labels: { file: string }; value: number }[] {
    return this.#material.expiry.map(({ file, atMs }) => ({
      labels: { file },
      value: Math.round((atMs - this.#clock.epochMs()) / 1000),
    }));
  }

  /** Takes changed files into use, and then calls `onChange`. */
  watch(log: Log, onChange: () => void, onRefused: () => void): FileWatch {
    const changed = (material: TlsMaterial): void => {
      this.#material = material;
      onChange();
    };
    const [files, before, clock] = [this.#files, this.#before, this.#clock];
    return watchTlsMaterial({ files, before, clock, log, onChange: changed, onRefused });
  }
}
