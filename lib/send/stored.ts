// The mode of the files in which a sender stores events, and the form of the bodies in them.
import { isUtf8 } from 'node:buffer';

export const OWNER_ONLY = 0o600;

/** The members of a JSON object that contain a body. */
export interface BodyMembers {
  readonly body?: string;
  readonly bodyBase64?: string;
}

export const bodyMembers = (bytes: Buffer): BodyMembers =>
  isUtf8(bytes) ? { body: bytes.toString('utf8') } : { bodyBase64: bytes.toString('base64') };

/** Returns `undefined` if the object contains no body. */
export function bytesOf({ body, bodyBase64 }: { readonly [K in keyof BodyMembers]: unknown }): Buffer | undefined {
  if (typeof body === 'string') return Buffer.from(body);
  return typeof bodyBase64 === 'string' ? Buffer.from(bodyBase64, 'base64') : undefined;
}
