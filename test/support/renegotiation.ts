// A client that renegotiates TLS 1.2 with another certificate, which Node cannot do.
import { execFile, execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { ClientCertificate, Pki } from './pki.ts';

const CLIENT = new URL('renegotiate.py', import.meta.url).pathname;
const PYTHON = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['python3', 'python3'], {
  encoding: 'utf8',
}).trim();

export interface Renegotiation {
  /** `none` means that the test did not ask for a renegotiation. */
  readonly outcome: 'renegotiated' | 'refused' | 'none';
  readonly received: string;
}

/**
 * Connects as `first`, renegotiates as `second` if given, and sends `request`, which must ask to close the
 * connection.
 */
export async function renegotiate(
  pki: Pki,
  port: number,
  first: ClientCertificate,
  second: ClientCertificate | undefined,
  request: string,
): Promise<Renegotiation> {
  const name = randomUUID();
  const files = (part: string, certificate: ClientCertificate | undefined): string[] =>
    certificate === undefined
      ? ['-', '-']
      : [pki.write(`${name}-${part}.pem`, certificate.cert), pki.write(`${name}-${part}-key.pem`, certificate.key)];
  const { stdout } = await promisify(execFile)(
    PYTHON,
    [CLIENT, String(port), ...files('first', first), ...files('second', second), pki.write(`${name}.http`, request)],
    { encoding: 'latin1', timeout: 60_000 },
  );
  const [outcome = '', ...rest] = stdout.split('\n');
  return { outcome: outcome as Renegotiation['outcome'], received: rest.join('\n') };
}
