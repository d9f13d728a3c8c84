/** A JSON object whose members are not known yet. */
export type JsonRecord = Readonly<Record<string, unknown>>;

/** `value` as a JSON object, or undefined when it is something else. */
export function asRecord(value: unknown): JsonRecord | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonRecord) : undefined;
}
