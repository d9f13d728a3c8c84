import type * as z from 'zod';

/** What the description of the API shows of a value whose kind is looked at where it is read. */
export interface ShownKinds {
  /** Made when the description is. */
  readonly kinds: () => readonly z.ZodType[];
  /** What becomes of a value that is none of `kinds`. */
  readonly others: string;
}

const shown = new WeakMap<z.core.$ZodType, ShownKinds>();

/** Says what the description of the API shows of `schema`, which checks less. */
export function showsKinds<Schema extends z.ZodType>(schema: Schema, kinds: ShownKinds): Schema {
  shown.set(schema, kinds);
  return schema;
}

/** What `showsKinds` said of a schema, if anything. */
export function shownKindsOf(schema: z.core.$ZodType): ShownKinds | undefined {
  return shown.get(schema);
}
