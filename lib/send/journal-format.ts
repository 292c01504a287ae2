// The mode of a sender's files, the form of the bodies in them, and a reader of JSON objects.
import { isUtf8 } from 'node:buffer';

export const OWNER_ONLY = 0o600;

/** The members of a JSON object that contain a body. */
export interface BodyMembers {
  readonly body?: string;
  readonly bodyBase64?: string;
}

export const bodyMembers = (bytes: Buffer): BodyMembers =>
  isUtf8(bytes) ? { body: bytes.toString('utf8') } : { bodyBase64: bytes.toString('base64') };

export function bytesOf({ body, bodyBase64 }: { readonly [K in keyof BodyMembers]: unknown }): Buffer | undefined {
  if (typeof body === 'string') return Buffer.from(body);
  return typeof bodyBase64 === 'string' ? Buffer.from(bodyBase64, 'base64') : undefined;
}

export function objectIn(text: string | Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text.toString());
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // The text is not JSON.
  }
  return undefined;
}
