import * as z from 'zod';
import { ServeError } from '../../errors/index.ts';
import type { GenerationRequest } from '../generation/generation-request.ts';
import type { JsonBody } from '../json/json-body.ts';
import type { DecodeContext } from './decode-context.ts';
import { assembleTextless } from './decode-request.ts';
import { checkRange, requireShape } from './field-checks.ts';
import { atMost } from './shape-check.ts';
import { i32, RANGES, ranged, u32 } from './shared-fields.ts';

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

/** Model of an images request that names none. */
const DEFAULT_IMAGE_MODEL = 'diffusion';

/** An images body whose model is known. */
export type NamedImagesBody = ImagesBody & { readonly model: string };

/** Checks the types of an images body. @throws ServeError 400; see `requireShape`. */
export function parseImagesBody(body: JsonBody): NamedImagesBody {
  const images = requireShape(imagesSchema, body);
  return { ...images, model: images.model ?? DEFAULT_IMAGE_MODEL };
}

/** Checks the types of a videos body. @throws ServeError 400; see `requireShape`. */
export function parseVideosBody(body: JsonBody): VideosBody {
  return requireShape(videosSchema, body);
}

/**
 * Turns an images body whose types are right into a request.
 * @param route `edits` starts from a picture, which is then required
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `headers_too_large`.
 */
export function decodeImages(
  body: NamedImagesBody,
  route: 'generations' | 'edits',
  context: DecodeContext,
): GenerationRequest {
  checkRange(body.n, RANGES.images, 'n', 'n');
  if (route === 'edits' && body.input_reference == null) {
    const message = 'input_reference is required for /v1/images/edits';
    throw new ServeError('missing_required_parameter', message, { param: 'input_reference' });
  }
  return mediaRequest('images', body, imagesSchema.shape, context);
}

/** Turns a videos body whose types are right into a request. @throws ServeError `headers_too_large`. */
export function decodeVideos(body: VideosBody, context: DecodeContext): GenerationRequest {
  return mediaRequest('videos', body, videosSchema.shape, context);
}

function mediaRequest(
  endpoint: 'images' | 'videos',
  body: NamedImagesBody | VideosBody,
  known: Readonly<Record<string, unknown>>,
  context: DecodeContext,
): GenerationRequest {
  const stream = endpoint === 'videos' && body.stream === true;
  const parts = {
    model: body.model,
    endpoint,
    stream,
    prompt: { kind: 'body' },
    body: forWorker(body, known),
  } as const;
  return assembleTextless(body, parts, context);
}

/** The body as media workers read it: what nobody here knows is theirs to judge and stands apart. */
function forWorker(
  body: Readonly<Record<string, unknown>>,
  known: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const named: Record<string, unknown> = {};
  const unknown: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(body)) {
    if (value === null) continue;
    if (Object.hasOwn(known, key)) named[key] = value;
    else unknown[key] = value;
  }
  return Object.keys(unknown).length === 0 ? named : { ...named, extra_args: { media_passthrough: unknown } };
}
