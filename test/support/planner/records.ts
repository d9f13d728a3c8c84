import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A named row of a record. It is played against the planner and returns its differences, one line each. */
export interface PlannerRow {
  readonly id: string;
  play(): readonly string[];
}

export type Json = Readonly<Record<string, unknown>>;

/** Reads the rows of `name` in a folder, or none if the file is missing. */
export function readRows(folder: string, name: string): readonly Json[] {
  if (!readdirSync(folder).includes(name)) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n');
  return lines.filter((line) => line.trim() !== '').map((line) => JSON.parse(line) as Json);
}

/** Compares numbers within a relative difference and everything else exactly. Undefined and null are equal. */
export function differs(got: unknown, want: unknown, tolerance = 1e-4): boolean {
  if (typeof want !== 'number' || typeof got !== 'number')
    return JSON.stringify(got ?? null) !== JSON.stringify(want ?? null);
  return Math.abs(got - want) > Math.max(1e-5, tolerance * Math.abs(want));
}

export function difference(what: string, got: unknown, want: unknown): string {
  return `${what}: expected ${JSON.stringify(want ?? null)}, got ${JSON.stringify(got ?? null)}`;
}
