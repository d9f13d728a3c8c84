import * as z from 'zod';
import { atMost } from './shape-check.ts';
import { modelName, u32 } from './shared-fields.ts';

const atLeastOne = { minItems: 1 };

/** Body of `POST /v1/embeddings`. Other root keys and other keys of `nvext` are ignored. */
export const embeddingsSchema = z.looseObject({
  model: modelName,
  input: z.union([
    z.string(),
    z.array(z.string()).meta(atLeastOne),
    z.array(u32).meta(atLeastOne),
    z.array(z.array(u32)).meta(atLeastOne),
  ]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: u32.nullish(),
  user: z.string().nullish(),
  nvext: z.looseObject({ annotations: atMost(z.array(z.string()), 'names').nullish() }).nullish(),
});

export type EmbeddingsBody = z.infer<typeof embeddingsSchema>;
