// The one identity of a finding for formats that know a single unique text.
import { hash } from 'node:crypto';
import type { Finding } from '../document/report-schema.ts';

/** The fingerprint itself for the first occurrence, else 64 hex digits made from fingerprint and occurrence. */
export function exportedIdentity({ fingerprint, occurrence }: Pick<Finding, 'fingerprint' | 'occurrence'>): string {
  return occurrence === 1 ? fingerprint : hash('sha256', `${fingerprint}:${occurrence}`, 'hex').slice(0, 64);
}
