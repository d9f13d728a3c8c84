import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One row of a record: named, and played against the planner; what differs comes back, a line each. */
export interface PlannerRow {
  readonly id: string;
  play(): readonly string[];
}

export type Json = Readonly<Record<string, unknown>>;

/** The rows of `name` in a folder, or none where there is no such file. */
export function readRows(folder: string, name: string): readonly Json[] {
  if (!readdirSync(folder).includes(name)) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n');
  return lines.filter((line) => line.trim() !== '').map((line) => JSON.parse(line) as Json);
}

/** Numbers within a relative difference, everything else exactly; what is not said and null are the same. */
export function differs(got: unknown, want: unknown, tolerance = 1e-4): boolean {
  if (typeof want !== 'number' || typeof got !== 'number')
    return JSON.stringify(got ?? null) !== JSON.stringify(want ?? null);
  return Math.abs(got - want) > Math.max(1e-5, tolerance * Math.abs(want));
}

export function difference(what: string, got: unknown, want: unknown): string {
  return `${what}: expected ${JSON.stringify(want ?? null)}, got ${JSON.stringify(got ?? null)}`;
}
