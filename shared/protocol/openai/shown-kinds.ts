import type * as z from 'zod';

/** Kinds that the description of the API shows for a value whose kind is checked where it is read. */
export interface ShownKinds {
  /** Creates the kinds' schemas, when the description is made. */
  readonly kinds: () => readonly z.ZodType[];
  /** Description of how values of other kinds are treated. */
  readonly others: string;
}

const shown = new WeakMap<z.core.$ZodType, ShownKinds>();

/** Sets the kinds that the description of the API shows for `schema`, which itself checks less. */
export function showsKinds<Schema extends z.ZodType>(schema: Schema, kinds: ShownKinds): Schema {
  shown.set(schema, kinds);
  return schema;
}

/** Returns the kinds that `showsKinds` set for a schema, if any. */
export function shownKindsOf(schema: z.core.$ZodType): ShownKinds | undefined {
  return shown.get(schema);
}
