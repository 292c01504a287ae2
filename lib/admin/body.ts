// Bodies as people and programs see them: text where they are text, else hex.
import { isUtf8 } from 'node:buffer';
import { printableLines } from '../process/printable.ts';

const HEX_LINE_BYTES = 32;

/** Whether a terminal shows it as it is: UTF-8 without control characters other than tab and line break. */
const isText = (body: Buffer): boolean =>
  isUtf8(body) && printableLines(body.toString('utf8')) === body.toString('utf8');

/** Indented lines. */
export function bodyText(body: Buffer): string {
  if (body.length === 0) return '  (no body)';
  if (isText(body)) return body.toString('utf8').replaceAll(/^/gm, '  ');
  const lines: string[] = [];
  for (let at = 0; at < body.length; at += HEX_LINE_BYTES)
    lines.push(`  ${body.subarray(at, at + HEX_LINE_BYTES).toString('hex')}`);
  return lines.join('\n');
}

/** `body`, or `bodyHex` for what is no UTF-8. */
export const bodyJson = (body: Buffer): { readonly body: string } | { readonly bodyHex: string } =>
  isUtf8(body) ? { body: body.toString('utf8') } : { bodyHex: body.toString('hex') };
