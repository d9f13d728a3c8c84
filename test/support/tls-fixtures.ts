import { readFileSync } from 'node:fs';

/** Returns a certificate or key of test/fixtures/tls, as PEM text. */
export function readTlsFixture(name: string): string {
  return readFileSync(new URL(`../fixtures/tls/${name}`, import.meta.url), 'utf8');
}
