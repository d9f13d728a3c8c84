import type * as z from 'zod';

/** Lowest and highest value. */
export type Range = readonly [min: number, max: number];

/** Ranges of root fields: checked with messages of their own, after the types. */
export const RANGES = {
  temperature: [0, 2],
  top_p: [0, 1],
  min_p: [0, 1],
  frequency_penalty: [-2, 2],
  presence_penalty: [-2, 2],
  n: [1, 128],
  top_logprobs: [0, 20],
  logprobs: [0, 5],
  best_of: [0, 20],
  logit_bias: [-100, 100],
  images: [1, 10],
} as const satisfies Readonly<Record<string, Range>>;

/** Tells readers of the API's description of a range that the schema itself does not check. */
export function ranged<Schema extends z.ZodType>(schema: Schema, [minimum, maximum]: Range): Schema {
  return schema.meta({ minimum, maximum });
}
