import * as z from 'zod';
import { u32 } from './shared-fields.ts';

/** Body of `POST /v1/embeddings` (http-api.md, section 5). Other root keys and other keys of `nvext` are ignored. */
export const embeddingsSchema = z.looseObject({
  model: z.string(),
  input: z.union([z.string(), z.array(z.string()), z.array(u32), z.array(z.array(u32))]),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: u32.nullish(),
  user: z.string().nullish(),
  nvext: z.looseObject({ annotations: z.array(z.string()).nullish() }).nullish(),
});

export type EmbeddingsBody = z.infer<typeof embeddingsSchema>;
