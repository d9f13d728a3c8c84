import * as z from 'zod';
import { RANGES, ranged } from './field-ranges.ts';
import { atMost } from './shape-check.ts';
import { u32 } from './shared-fields.ts';

/** Body of `POST /v1/images/generations` and `/v1/images/edits`: types only. */
export const imagesSchema = z.looseObject({
  prompt: z.string(),
  model: z.string().nullish(),
  n: ranged(u32, RANGES.images).nullish(),
  size: z.string().nullish(),
  quality: z.enum(['standard', 'hd', 'high', 'medium', 'low', 'xhigh', 'max', 'auto']).nullish(),
  response_format: z.enum(['url', 'b64_json']).nullish(),
  output_format: z.enum(['png', 'jpeg', 'webp']).nullish(),
  output_compression: u32.nullish(),
  background: z.enum(['auto', 'transparent', 'opaque']).nullish(),
  moderation: z.enum(['auto', 'low']).nullish(),
  style: z.enum(['vivid', 'natural']).nullish(),
  partial_images: u32.nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  input_reference: z.string().nullish(),
  nvext: z
    .looseObject({
      annotations: atMost(z.array(z.string()), 'names').nullish(),
      negative_prompt: z.string().nullish(),
      num_inference_steps: u32.nullish(),
      guidance_scale: z.number().nullish(),
      seed: z.int().nullish(),
    })
    .nullish(),
});

/** What the edits route shows: it starts from a picture. */
export const imageEditsSchema = imagesSchema.extend({ input_reference: z.string() });

export type ImagesBody = z.infer<typeof imagesSchema>;
