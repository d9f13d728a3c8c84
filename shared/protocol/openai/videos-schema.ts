import * as z from 'zod';
import { atMost } from './shape-check.ts';
import { i32 } from './shared-fields.ts';

/** Body of `POST /v1/videos/generations` and its stream: types only. */
export const videosSchema = z.looseObject({
  prompt: z.string(),
  model: z.string(),
  input_reference: z.string().nullish(),
  seconds: i32.nullish(),
  size: z.string().nullish(),
  response_format: z.enum(['url', 'b64_json']).nullish(),
  output_format: z.string().nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  nvext: z.looseObject({ annotations: atMost(z.array(z.string()), 'names').nullish() }).nullish(),
});

export type VideosBody = z.infer<typeof videosSchema>;
