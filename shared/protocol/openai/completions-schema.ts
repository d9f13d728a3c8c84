import * as z from 'zod';
import { nvextSchema } from './nvext-schema.ts';
import { RANGES, ranged, sharedFields, u32 } from './shared-fields.ts';

const notEmpty = { minLength: 1 };
const atLeastOne = { minItems: 1 };

/** Text, token ids, or a batch of either. */
const promptInput = z.union([
  z.string().meta(notEmpty),
  z.array(z.string().meta(notEmpty)).meta(atLeastOne),
  z.array(u32).meta(atLeastOne),
  z.array(z.array(u32).meta(atLeastOne)).meta(atLeastOne),
]);

/** Body of `POST /v1/completions`: types only; bounds have messages of their own. */
export const completionsSchema = z
  .looseObject({
    ...sharedFields,
    prompt: promptInput.optional(),
    prompt_embeds: z.string().nullish(),
    suffix: z.string().nullish(),
    best_of: ranged(z.int().min(0).max(255), RANGES.best_of).nullish(),
    logprobs: ranged(z.int().min(0).max(255), RANGES.logprobs).nullish(),
    echo: z.boolean().nullish(),
    nvext: nvextSchema.nullish(),
  })
  .meta({ anyOf: [{ required: ['prompt'] }, { required: ['prompt_embeds'] }] });

export type CompletionsBody = z.infer<typeof completionsSchema>;
