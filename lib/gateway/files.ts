// The files that a gateway's configuration names: TLS material, token keys and producers, read, and watched for a
// change.
//
// At the start a file that cannot be used ends the process with exit code 2 and says which one and why; later the last
// good one stays in use.
import { Producers, ProducersFileError } from './producers-file.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './gateway.ts';
import { developmentCertificates } from '../identity/development-certificates.ts';
import { audienceUri } from '../identity/producer-identity.ts';
import {
  loadTlsMaterial,
  TlsMaterialError,
  tlsPaths,
  type TlsFiles,
  type TlsMaterial,
} from '../identity/tls-material.ts';
import type { TokenVerifier } from '../identity/token-verifier.ts';
import { errno } from '../process/env.ts';
import { FileWatch, lookAt, type Look } from '../process/file-watch.ts';
import type { Log } from '../process/log.ts';
import { EXIT, StartFailure } from '../process/program.ts';

/** The paths of the TLS files; development certificates are made where none is configured. Throws a StartFailure. */
export async function tlsFiles(config: GatewayConfig, log: Log): Promise<TlsFiles> {
  if (config.tls.kind === 'files') return config.tls;
  try {
    const made = await developmentCertificates(config.stateDir, audienceUri(config.audience));
    log.warn(
      { folder: config.stateDir },
      'no TLS material is configured: using development certificates, which are not for production',
    );
    return { cert: made.cert, key: made.key, clientCa: made.clientCa };
  } catch (cause) {
    throw new StartFailure(
      EXIT.configuration,
      `INGEST_STATE_DIR=${JSON.stringify(config.stateDir)}: expected a writable folder for development certificates (${errno(cause)})`,
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

/** What the TLS files hold. Throws a StartFailure that names every file that cannot be used. */
export async function tlsMaterial(files: TlsFiles): Promise<TlsMaterial> {
  try {
    return await loadTlsMaterial(files);
  } catch (cause) {
    if (cause instanceof TlsMaterialError) throw new StartFailure(EXIT.configuration, cause.message);
    throw cause;
  }
}

/** How all files look that are watched, to be asked before one of them is loaded. */
export function lookAtFiles({ tokenJwks, producersFile }: GatewayConfig, tls: TlsFiles): Promise<Look> {
  return lookAt([...tlsPaths(tls), tokenJwks, producersFile].filter((path) => path !== undefined));
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
    throw new StartFailure(EXIT.configuration, cause instanceof Error ? cause.message : String(cause));
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

/**
 * Takes changed token keys into use, and makes the gateway judge every token anew; undefined where no file is watched.
 */
export function watchTokenKeys(
  verifier: TokenVerifier | undefined,
  before: Look,
  gateway: Gateway,
  log: Log,
): FileWatch | undefined {
  verifier?.onChange(() => {
    gateway.forgetTokens();
    log.info('token keys changed and are in use');
  });
  if (verifier?.file === undefined) return undefined;
  return new FileWatch([verifier.file], before, async () => {
    try {
      await verifier.reload();
      gateway.forgetTokens();
      log.info('token keys changed and are in use');
    } catch (cause) {
      log.error({ err: cause }, 'changed token keys refused; the last good ones stay');
    }
  });
}
