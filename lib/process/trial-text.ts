// The text that `make ingest-run` prints: shell commands that send an event and look it up.
import { join } from 'node:path';

export interface Trial {
  /** The gateway's URL, https://host:port. */
  readonly address: string;
  readonly stateDir: string;
  /** The folder that contains the programs, relative to the user's working folder. */
  readonly bin: string;
  /** True if the operator configured certificates, so the paths of a producer's files are unknown. */
  readonly ownCertificates: boolean;
  /** The SQLite file of the warehouse; undefined if the operator configured a warehouse. */
  readonly database: string | undefined;
}

export function trialText({ address, stateDir, bin, ownCertificates, database }: Trial): string {
  const [ca, cert, key] = ownCertificates
    ? ['CA.pem', 'PRODUCER.pem', 'PRODUCER-KEY.pem']
    : ['ca.pem', 'producer.pem', 'producer-key.pem'].map((name) => quoted(join(stateDir, 'tls', name)));
  const curl = `curl -w '\\n' --cacert ${ca} --cert ${cert} --key ${key}`;
  const event = '{"id":"first","type":"example.created","data":{"n":1}}';
  return `
Send an event:
  ${curl} -H 'Content-Type: application/json' -d '${event}' ${address}/events

Look it up; "accepted" becomes "landed" when the consumer has landed it:
  ${curl} ${address}/events/first
${database === undefined ? '' : inspections(quoted(database), bin)}
Send a hundred sample events:
  ${quoted(join(bin, 'ingest-send'))} --url ${address} --sample 100

Ctrl-C ends everything. To start over, remove the state folder: rm -r ${quoted(stateDir)}

`;
}

/** `file` is already quoted for the shell. */
function inspections(file: string, bin: string): string {
  const query = 'SELECT id, producer, landed_at, body FROM events';
  const database = 'new (require("node:sqlite").DatabaseSync)(process.argv[1],{readOnly:true})';
  const script = `console.table(${database}.prepare("${query}").all())`;
  return `
Query the warehouse, with either command:
  sqlite3 -readonly ${file} '${query}'
  ${quoted(join(bin, 'node'))} -e '${script}' ${file}
`;
}

const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
