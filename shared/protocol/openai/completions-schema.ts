import * as z from 'zod';
import { nvextSchema } from './nvext-schema.ts';
import { sharedFields, u32 } from './shared-fields.ts';

/** Body of `POST /v1/completions` (http-api.md, section 4.1): types only; bounds have messages of their own. */
export const completionsSchema = z.looseObject({
  ...sharedFields,
  prompt: z.union([z.string(), z.array(z.string()), z.array(u32), z.array(z.array(u32))]).optional(),
  prompt_embeds: z.string().nullish(),
  suffix: z.string().nullish(),
  best_of: z.int().min(0).max(255).nullish(),
  logprobs: z.int().min(0).max(255).nullish(),
  echo: z.boolean().nullish(),
  nvext: nvextSchema.nullish(),
});

export type CompletionsBody = z.infer<typeof completionsSchema>;
