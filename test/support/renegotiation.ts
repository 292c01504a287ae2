// A client that changes its certificate in the middle of a TLS 1.2 connection, which node's own client cannot do.
import { execFile, execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { ClientCertificate, Pki } from './pki.ts';

const CLIENT = new URL('renegotiate.py', import.meta.url).pathname;
const PYTHON = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['python3', 'python3'], {
  encoding: 'utf8',
}).trim();

export interface Renegotiation {
  /** What came of it; `none` where none was asked for. */
  readonly outcome: 'renegotiated' | 'refused' | 'none';
  /** Everything that came back for the request: status line, headers, body. Empty where the connection was closed. */
  readonly received: string;
}

/**
 * Connects as `first`, renegotiates as `second` where one is given, then sends `request`, which must ask for the
 * connection's end.
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
