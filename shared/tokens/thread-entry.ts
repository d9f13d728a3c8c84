import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Path of the bundle `name`, which lies beside `dist/stator.js`; this code may sit in `dist/` or in `dist/chunks/`.
 * Undefined where it is missing: tests run from sources.
 */
export function findThreadEntry(name: string): string | undefined {
  if (import.meta.url.endsWith('.ts')) return undefined;
  const places = [`./${name}`, `../${name}`];
  return places.map((place) => fileURLToPath(new URL(place, import.meta.url))).find((path) => existsSync(path));
}
