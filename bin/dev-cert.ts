// `make dev-cert NAME=shop AUD=ingest-gateway` issues a certificate for another producer, signed by the development
// authority in the state folder.
import { resolve } from 'node:path';
import { audienceUri } from '../lib/identity/producer-identity.ts';
import { producerCertificate } from '../lib/identity/development-certificates.ts';
import { processEnvironment } from '../lib/process/env.ts';
import { messageOf } from '../lib/process/message-of.ts';
import { EXIT } from '../lib/process/program.ts';
import { complainer, print } from './output.ts';

const environment = processEnvironment();
const name = environment['NAME'] ?? '';
const audience = environment['AUD'] ?? environment['INGEST_AUDIENCE'] ?? 'ingest-gateway';
const stateDir = environment['INGEST_STATE_DIR'] ?? '.ingest';

try {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name))
    throw new Error('expected NAME, 1 to 64 letters, digits, "-" or "_": make dev-cert NAME=shop AUD=ingest-gateway');
  const made = await producerCertificate(stateDir, name, audienceUri(audience));
  print(
    `producer urn:ingest:producer:${name} with the audience ${audience}:\n` +
      `  --cert ${resolve(made.cert)} --key ${resolve(made.key)} --ca ${resolve(made.ca)}\n`,
  );
} catch (cause) {
  complainer('dev-cert')(messageOf(cause));
  process.exitCode = EXIT.configuration;
}
