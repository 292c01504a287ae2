// Runs a load generator in its own process and calls back at the start and at the end of the measured part.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { NODE, ROOT, type BenchCertificates } from '../bench-environment.ts';
import type { LoadOptions, LoadResult } from './options.ts';

export type LoadKind = 'raw-client.ts' | 'open-loop.ts' | 'paced.ts' | 'new-connections.ts';

export function runLoad(
  kind: LoadKind,
  certificates: BenchCertificates,
  options: Omit<LoadOptions, 'caPath' | 'certPath' | 'keyPath'>,
  marks: { readonly warm: () => void; readonly done: () => void },
): Promise<LoadResult> {
  const full: LoadOptions = { ...options, ...clientFiles(certificates) };
  return new Promise((resolve, reject) => {
    const load = ['--disable-warning=ExperimentalWarning', join(ROOT, 'bench/load', kind), JSON.stringify(full)];
    const child = spawn(NODE, load, { stdio: ['ignore', 'pipe', 'pipe'] });
    const limit = setTimeout(() => child.kill('SIGKILL'), options.warmupMs + options.durationMs + 60_000);
    let output = '';
    const complaints: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk));
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (line === 'warm') marks.warm();
      else if (line === 'done') marks.done();
      else complaints.push(line);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(limit);
      if (code === 0) resolve(JSON.parse(output) as LoadResult);
      else reject(new Error(`the load generator ended with ${code}: ${complaints.join('\n')}`));
    });
  });
}

/** Thousands of handshakes take minutes on a busy machine. */
const OPENING_MS_MAX = 300_000;

/** Opens idle connections in another process. Resolves when all connections are open. */
export function holdConnections(
  certificates: BenchCertificates,
  port: number,
  connections: number,
): Promise<{ stop(): Promise<void> }> {
  const options = { port, connections, bodyBytes: 300, ...clientFiles(certificates) };
  const file = 'idle-connections.ts';
  return new Promise((resolve, reject) => {
    const child = spawn(
      NODE,
      ['--disable-warning=ExperimentalWarning', join(ROOT, 'bench/load', file), JSON.stringify(options)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const gone = new Promise<void>((ended) => child.once('close', () => ended()));
    const limit = setTimeout(() => child.kill('SIGKILL'), OPENING_MS_MAX);
    void gone.then(() => {
      clearTimeout(limit);
      reject(new Error(`the process of ${file} has ended`));
    });
    child.stdout.once('data', () =>
      resolve({
        stop: () => {
          child.kill('SIGTERM');
          return gone;
        },
      }),
    );
  });
}

function clientFiles(certificates: BenchCertificates): Pick<LoadOptions, 'caPath' | 'certPath' | 'keyPath'> {
  return { caPath: certificates.ca, certPath: certificates.clientCert, keyPath: certificates.clientKey };
}
