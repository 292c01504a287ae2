// Reads and watches the files that the configuration names: TLS material, token keys and producers.
//
// During startup, a bad file makes the gateway exit with code 2. Later, the last good version stays in use.
import { Producers } from './producers-file.ts';
import type { GatewayConfig } from './config.ts';
import type { Gateway } from './gateway.ts';
import type { GatewayMetrics } from './metrics.ts';
import { developmentCertificates } from '../identity/development-certificates.ts';
import { audienceUri } from '../identity/producer-identity.ts';
import { tlsReloadable, type TlsFiles, type TlsMaterial } from '../identity/tls-material.ts';
import type { TokenKeys, TokenVerifier } from '../identity/token-verifier.ts';
import type { Clock, ClockAndRandom } from '../process/clock.ts';
import { errorCode } from '../process/operator-file.ts';
import type { Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import { allStarted, EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable } from '../process/reloadable.ts';
import { quotedValue } from '../process/uri.ts';

/** Members are `undefined` if the configuration does not name the file. */
export interface GatewayFiles {
  readonly material: Reloadable<TlsMaterial>;
  /** Also `undefined` if the keys are at a URL. */
  readonly keys: Reloadable<TokenKeys> | undefined;
  readonly verifier: TokenVerifier | undefined;
  readonly producers: Reloadable<Producers> | undefined;
}

/** Throws a StartFailure that names every bad file. */
export async function readFiles(config: GatewayConfig, log: Log, { clock }: ClockAndRandom): Promise<GatewayFiles> {
  const [material, tokens, producers] = await allFiles(
    config,
    tlsReloadable(await tlsFiles(config, log, clock), clock),
  );
  const { expired, warnings } = material.value;
  if (expired !== undefined) log.warn(expired);
  for (const warning of [...warnings, ...audienceWarnings(config, producers?.value)]) log.warn(warning);
  return { material, ...tokens, producers };
}

/** Reads all files for `--check`. Returns warnings; throws a StartFailure that names every bad file. */
export async function checkFiles(config: GatewayConfig, clock: Clock): Promise<readonly string[]> {
  const { tls } = config;
  const [material, , producers] = await allFiles(config, tls.kind === 'files' ? tlsReloadable(tls, clock) : undefined);
  const { expired, warnings = [] } = material?.value ?? {};
  if (expired !== undefined) throw new StartFailure(EXIT.configuration, expired);
  return [...warnings, ...audienceWarnings(config, producers?.value)];
}

const allFiles = <T>(config: GatewayConfig, material: T) =>
  allStarted([material, tokenFiles(config), producersFile(config)]);

function audienceWarnings({ audience, producersFile }: GatewayConfig, producers: Producers | undefined): string[] {
  return (producers?.foreignAudiences(audience) ?? []).map(
    ([row, foreign]) =>
      `INGEST_PRODUCERS_FILE=${JSON.stringify(producersFile)}: the row ${JSON.stringify(row)} grants the audience ` +
      `${JSON.stringify(foreign)}, but INGEST_AUDIENCE is ${JSON.stringify(audience)}`,
  );
}

/** Returns the paths of the TLS files. Makes development certificates if no files are configured. */
async function tlsFiles(config: GatewayConfig, log: Log, clock: Clock): Promise<TlsFiles> {
  if (config.tls.kind === 'files') return config.tls;
  try {
    const made = await developmentCertificates(config.stateDir, audienceUri(config.audience), clock.epochMs());
    log.warn(
      { folder: config.stateDir },
      'no TLS material is configured: using development certificates, which are not for production',
    );
    return { cert: made.cert, key: made.key, clientCa: made.clientCa };
  } catch (cause) {
    const why =
      cause instanceof Error && 'code' in cause
        ? `expected a writable folder for development certificates (${errorCode(cause)})`
        : messageOf(cause);
    throw new StartFailure(EXIT.configuration, `INGEST_STATE_DIR=${JSON.stringify(config.stateDir)}: ${why}`);
  }
}

/** Returns the verifier for bearer tokens and the file with its keys. */
async function tokenFiles({
  tokenJwks: jwks,
  tokenIssuer: issuer,
  audience,
}: GatewayConfig): Promise<Pick<GatewayFiles, 'keys' | 'verifier'>> {
  if (jwks === undefined) return { keys: undefined, verifier: undefined };
  // Only a gateway that accepts tokens loads the library.
  const { tokenKeys, TokenVerifier } = await import('../identity/token-verifier.ts');
  const keys = jwks.startsWith('https://') ? undefined : await reloadable([jwks], (read) => tokenKeys(jwks, read));
  return { keys, verifier: new TokenVerifier({ keys: keys?.value ?? new URL(jwks), issuer, audience }) };
}

async function producersFile({ producersFile: path }: GatewayConfig): Promise<Reloadable<Producers> | undefined> {
  if (path === undefined) return undefined;
  return reloadable([path], (read) =>
    Producers.read(path, read).catch((cause: unknown) => {
      throw new StartFailure(EXIT.configuration, `INGEST_PRODUCERS_FILE=${JSON.stringify(path)}: ${messageOf(cause)}`);
    }),
  );
}

export interface FileUsers {
  readonly gateway: Pick<Gateway, 'replaceTls' | 'replaceProducers' | 'forgetVerdicts'>;
  readonly metrics: Pick<GatewayMetrics, 'reloads'>;
}

/** Applies changes to the files while the gateway is running. `reload` also reads files that have not changed. */
export function watchFiles(
  config: GatewayConfig,
  { material, keys, verifier, producers }: GatewayFiles,
  { gateway, metrics }: FileUsers,
  log: Log,
  clock: Clock,
) {
  const watch = <T>(
    files: Reloadable<T> | undefined,
    kind: string,
    onChange: (value: T) => void,
    fields?: (value: T) => object,
  ): void => files?.watch({ kind, clock, log, onChange, onOutcome: metrics.reloads.of(kind), fields });
  const replaceTls = (changed: TlsMaterial): void => {
    for (const warning of changed.warnings) log.warn(warning);
    void gateway.replaceTls(changed);
  };
  watch(material, 'tls', replaceTls, expiryFields);
  watch(keys, 'token_keys', (changed) => {
    if (verifier !== undefined) verifier.keys = changed;
    gateway.forgetVerdicts();
  });
  if (verifier !== undefined) verifier.onChange = () => gateway.forgetVerdicts();
  if (verifier !== undefined && keys === undefined)
    verifier.onFetched = fetchReporter(config.tokenJwks, metrics.reloads.of('token_keys'), log);
  watch(producers, 'producers', (changed) => {
    for (const warning of audienceWarnings(config, changed)) log.warn(warning);
    gateway.replaceProducers(changed);
  });
  const watched = [material, keys, producers];
  return {
    reload: (): void => {
      log.info('SIGHUP: loading TLS material, token keys and the producers file again');
      for (const files of [...watched, verifier]) void files?.reload();
    },
    stop: (): void => {
      for (const files of watched) files?.stop();
    },
  };
}

/** Returns a function that counts each request for the keys at a URL, and logs a failure unless it repeats the last. */
function fetchReporter(url = '', onOutcome: (current: boolean) => void, log: Log): TokenVerifier['onFetched'] {
  const setting = `INGEST_TOKEN_JWKS=${quotedValue('INGEST_TOKEN_JWKS', url)}`;
  let last: string | undefined;
  return (failure) => {
    onOutcome(failure === undefined);
    if (failure !== undefined && failure !== last)
      log.error(
        { reason: `${setting}: ${failure}` },
        'the token keys cannot be loaded; loaded ones stay in use for ten minutes',
      );
    if (failure === undefined && last !== undefined) log.info('the token keys can be loaded again');
    last = failure;
  };
}

const expiryFields = ({ expiry }: TlsMaterial): object => ({
  expiry: expiry.map(({ file, atMs }) => ({ file, at: new Date(atMs).toISOString() })),
});
