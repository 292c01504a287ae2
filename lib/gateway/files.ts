// The files that a gateway's configuration names: TLS material, token keys and producers, read, and watched for a
// change.
//
// At the start a file that cannot be used ends the process with exit code 2 and says which one and why; later the last
// good one stays in use.
import { Producers, ProducersFileError, watchProducers } from './producers-file.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './gateway.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { Quotas } from './quotas.ts';
import { developmentCertificates } from '../identity/development-certificates.ts';
import { audienceUri } from '../identity/producer-identity.ts';
import {
  tlsFileName,
  tlsMaterial,
  tlsPaths,
  watchTlsMaterial,
  type TlsFiles,
  type TlsMaterial,
} from '../identity/tls-material.ts';
import type { TokenVerifier } from '../identity/token-verifier.ts';
import type { Clock, ClockAndRandom } from '../process/clock.ts';
import { errno } from '../process/env.ts';
import { FileWatch, lookAt, type Look } from '../process/file-watch.ts';
import type { Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import { EXIT, StartFailure } from '../process/program.ts';

/** The paths of the TLS files; development certificates are made where none is configured. Throws a StartFailure. */
async function tlsFiles(config: GatewayConfig, log: Log, system: ClockAndRandom): Promise<TlsFiles> {
  if (config.tls.kind === 'files') return config.tls;
  try {
    const made = await developmentCertificates(config.stateDir, audienceUri(config.audience), system);
    log.warn(
      { folder: config.stateDir },
      'no TLS material is configured: using development certificates, which are not for production',
    );
    return { cert: made.cert, key: made.key, clientCa: made.clientCa };
  } catch (cause) {
    throw new StartFailure(
      EXIT.configuration,
      `INGEST_STATE_DIR=${JSON.stringify(config.stateDir)}: ` +
        `expected a writable folder for development certificates (${errno(cause)})`,
    );
  }
}

/** Waits for all files that are being read. Throws a StartFailure that names every file that cannot be used. */
export async function allFiles<T extends readonly unknown[]>(
  reading: readonly [...T],
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const failures: string[] = [];
  for (const one of await Promise.allSettled(reading)) {
    if (one.status === 'fulfilled') continue;
    if (!(one.reason instanceof StartFailure)) throw one.reason;
    failures.push(one.reason.message);
  }
  if (failures.length > 0) throw new StartFailure(EXIT.configuration, failures.join('\n'));
  return Promise.all(reading);
}

/** The verifier of bearer tokens; undefined where none are required. Throws a StartFailure. */
export async function tokenVerifier(config: GatewayConfig): Promise<TokenVerifier | undefined> {
  if (config.tokenJwks === undefined) return undefined;
  // Loaded here: only who requires tokens needs the library.
  const { TokenVerifier } = await import('../identity/token-verifier.ts');
  try {
    return await TokenVerifier.create({
      jwks: config.tokenJwks,
      issuer: config.tokenIssuer,
      audience: config.audience,
    });
  } catch (cause) {
    throw new StartFailure(EXIT.configuration, messageOf(cause));
  }
}

/**
 * What the producers file says; no restrictions where there is none. Throws a StartFailure with all that is wrong with
 * it.
 */
export async function producers({ producersFile }: GatewayConfig): Promise<Producers> {
  if (producersFile === undefined) return Producers.UNRESTRICTED;
  return Producers.read(producersFile).catch((cause: unknown) => {
    if (!(cause instanceof ProducersFileError)) throw cause;
    throw new StartFailure(
      EXIT.configuration,
      `INGEST_PRODUCERS_FILE=${JSON.stringify(producersFile)}: ${cause.message}`,
    );
  });
}

/** What a gateway's files hold, and how they looked before they were read. */
export interface GatewayFiles {
  readonly tls: TlsFiles;
  readonly before: Look;
  readonly material: TlsMaterial;
  readonly verifier: TokenVerifier | undefined;
  readonly rows: Producers;
}

/** Reads all files that the configuration names. Throws a StartFailure that names every one that cannot be used. */
export async function readFiles(config: GatewayConfig, log: Log, system: ClockAndRandom): Promise<GatewayFiles> {
  const tls = await tlsFiles(config, log, system);
  const before = await lookAt([...tlsPaths(tls), config.tokenJwks, config.producersFile].filter(isNamed));
  const nowMs = system.clock.epochMs();
  const [material, verifier, rows] = await allFiles([
    tlsMaterial(tls, nowMs),
    tokenVerifier(config),
    producers(config),
  ]);
  const overdue = material.expiry.find(({ atMs }) => atMs < nowMs);
  if (overdue !== undefined)
    log.warn(`${tlsFileName(tls, overdue.file)}: it has expired, so producers will be refused`);
  return { tls, before, material, verifier, rows };
}

const isNamed = (path: string | undefined): path is string => path !== undefined;

/** Who takes changed files into use, and counts them. */
export interface FileUsers {
  readonly gateway: Pick<Gateway, 'replaceTls' | 'forgetVerdicts'>;
  readonly quotas: Pick<Quotas, 'replace'> | undefined;
  readonly metrics: Pick<
    GatewayMetrics,
    'tlsReloads' | 'tlsReloadFailures' | 'producersReloads' | 'producersReloadFailures'
  >;
  /** Called with the TLS material that is in use from now on. */
  readonly onMaterial: (material: TlsMaterial) => void;
}

/** All watched files of a gateway. */
export interface WatchedFiles {
  /** Loads everything again, whether it changed or not (SIGHUP). */
  reload(): void;
  stop(): void;
}

/** Takes changed files into use while the gateway runs; what cannot be used is refused, logged and counted. */
export function watchFiles(
  { producersFile }: GatewayConfig,
  { tls, before, verifier }: GatewayFiles,
  { gateway, quotas, metrics, onMaterial }: FileUsers,
  log: Log,
  clock: Clock,
): WatchedFiles {
  const tlsWatch = watchTlsMaterial({
    clock,
    files: tls,
    before,
    log,
    onChange: (changed) => {
      onMaterial(changed);
      gateway.replaceTls(changed);
      metrics.tlsReloads.add();
    },
    onRefused: () => metrics.tlsReloadFailures.add(),
  });
  const keyWatch = watchTokenKeys(verifier, before, gateway, log, clock);
  const producersWatch =
    producersFile === undefined
      ? undefined
      : watchProducers({
          clock,
          path: producersFile,
          before,
          log,
          onChange: (changed) => {
            quotas?.replace(changed);
            gateway.forgetVerdicts();
            metrics.producersReloads.add();
          },
          onRefused: () => metrics.producersReloadFailures.add(),
        });
  const watches = [tlsWatch, keyWatch, producersWatch].filter((watch) => watch !== undefined);
  return {
    reload: () => {
      log.info('SIGHUP: loading TLS material, token keys and the producers file again');
      for (const watch of watches) void watch.now(true);
    },
    stop: () => {
      for (const watch of watches) watch.stop();
    },
  };
}

/**
 * Takes changed token keys into use, and makes the gateway judge every token anew; undefined where no file is watched.
 */
function watchTokenKeys(
  verifier: TokenVerifier | undefined,
  before: Look,
  gateway: Pick<Gateway, 'forgetVerdicts'>,
  log: Log,
  clock: Clock,
): FileWatch | undefined {
  const changed = (): void => {
    gateway.forgetVerdicts();
    log.info('token keys changed and are in use');
  };
  verifier?.onChange(changed);
  if (verifier?.file === undefined) return undefined;
  return new FileWatch(clock, [verifier.file], before, async () => {
    try {
      await verifier.reload();
      changed();
    } catch (cause) {
      log.error({ err: cause }, 'changed token keys refused; the last good ones stay');
    }
  });
}
