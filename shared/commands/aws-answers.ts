import { isRecord } from '../records/index.ts';

/** A part of a template or of an answer, whose names are those of AWS. */
export type Fields = Readonly<Record<string, unknown>>;

/** `value` as a record; without any fields if it is something else. */
export function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

/** `value` as a list; an empty one if it is something else. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
