import { isRecord } from '../records/index.ts';

/** A part of a template or of an answer, with field names as AWS writes them. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns `value` as a record, or an empty record if it is something else. */
export function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

/** Returns `value` as a list, or an empty list if it is something else. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
