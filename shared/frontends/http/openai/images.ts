import * as z from 'zod';
import { endOfTurn } from '../../../concurrency/index.ts';
import { LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import {
  atMost,
  checkRange,
  type DecodeContext,
  type GenerationRequest,
  type JsonBody,
  RANGES,
  ranged,
  requireShape,
  u32,
} from '../../../protocol/index.ts';
import { decodeContext, generate, requireServed } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import type { BodyRoute, ExampleModels, Serve } from '../route.ts';
import { readJson, serveInference, withBody } from '../serve-inference.ts';
import { imagesBody, mediaRequest, WholeMedia } from './media.ts';

/** Bytes that become base64 in one turn of the event loop; a multiple of three, so that the pieces fit together. */
const SLICE_BYTES = 3 * 256 * 1024;

/** Fields that are numbers or flags in JSON. A form has only texts. */
const INTEGERS: ReadonlySet<string> = new Set(['n', 'output_compression', 'partial_images']);

const FLAGS: ReadonlySet<string> = new Set(['stream']);

const PICTURES: ReadonlySet<string> = new Set(['image', 'image[]']);

/** A picture of one pixel. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const PNG = Buffer.of(0x89, 0x50, 0x4e, 0x47);

const JPEG = Buffer.of(0xff, 0xd8, 0xff);

/** Body of `POST /v1/images/generations` and `/v1/images/edits`: types only. */
const imagesSchema = z.looseObject({
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

/** Body of the edits route in the OpenAPI document, where the picture to start from is required. */
const imageEditsSchema = imagesSchema.extend({ input_reference: z.string() });

type ImagesBody = z.infer<typeof imagesSchema>;

/** Model of an images request that does not name one. */
const DEFAULT_IMAGE_MODEL = 'diffusion';

/** An images body whose model is known. */
type NamedImagesBody = ImagesBody & { readonly model: string };

/** `POST /v1/images/generations`. */
export const images: BodyRoute = {
  serve: serveRoute('generations'),
  body: { name: 'ImageRequest', schema: imagesSchema, example: exampleOf },
};

/** `POST /v1/images/edits`: makes images from a picture, sent as JSON or as the form of OpenAI's clients. */
export const imageEdits: BodyRoute = {
  serve: serveRoute('edits'),
  body: {
    name: 'ImageEditRequest',
    schema: imageEditsSchema,
    example: (models) => ({ ...exampleOf(models), input_reference: PIXEL }),
  },
};

function exampleOf({ Images: model }: ExampleModels) {
  return { model, prompt: 'A lighthouse at dusk', size: '512x512' };
}

function serveRoute(route: 'generations' | 'edits'): Serve {
  return serveInference({
    endpoint: 'images',
    isOffWithoutModel: true,
    read: (exchange, deps) =>
      route === 'edits' && isForm(exchange) ? readImageForm(exchange, deps) : readJson(exchange, deps),
    parse: parseImages,
    isStream: () => false,
    start: (inference, body, { meter, primaryName }) => {
      const request = decodeImages(body, route, decodeContext(inference));
      inference.identify(request);
      requireServed(inference, body.model, 'images');
      const names = { id: request.id, created: inference.createdSecs, model: primaryName };
      const sink = new WholeMedia(inference, (parts) => imagesBody(parts, names));
      generate(inference, request, sink, { meter, isWritten: false });
    },
  });
}

/** Parses an images body and names its model. @throws ServeError 400; see `requireShape` */
function parseImages(body: JsonBody): NamedImagesBody {
  const images = requireShape(imagesSchema, body);
  return { ...images, model: images.model ?? DEFAULT_IMAGE_MODEL };
}

/**
 * Turns an images body whose types are right into a request.
 * @param route `edits` starts from a picture and therefore requires one
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `headers_too_large`.
 */
function decodeImages(
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

function isForm(exchange: HttpExchange): boolean {
  return /^\s*multipart\/form-data\s*(?:;|$)/i.test(exchange.header('content-type') ?? '');
}

/**
 * Reads the form of an edit (`images.edit` of OpenAI's clients) as a JSON body of the same meaning. Files become
 * `data:` URLs: `input_reference` is the first picture, `image` lists all of them if there are several, and `mask` is
 * the mask.
 * @throws ServeError `request_too_large`, `invalid_value`
 */
function readImageForm(exchange: HttpExchange, deps: Pick<HttpAppDeps, 'settings' | 'bodies'>): Promise<JsonBody> {
  const contentType = exchange.header('content-type') ?? '';
  return withBody(exchange, deps, async (bytes) => toJson(await parseForm(bytes, contentType)));
}

async function toJson(form: FormData): Promise<JsonBody> {
  const body: Record<string, unknown> = {};
  const pictures: string[] = [];
  for (const [name, value] of form) {
    if (PICTURES.has(name) && typeof value !== 'string') {
      if (pictures.length === LIMITS.pictures.max)
        throw overLimit('pictures', `\`image\` cannot be more than ${LIMITS.pictures.max} files`, { param: 'image' });
      pictures.push(await pictureUrl(value, 'image'));
    } else if (Object.hasOwn(body, name)) {
      throw invalid(`the form has several fields \`${name}\``, name);
    } else {
      body[name] = typeof value === 'string' ? fieldValue(name, value) : await pictureUrl(value, name);
    }
  }
  if (pictures[0] !== undefined) body.input_reference ??= pictures[0];
  if (pictures.length > 1) body.image = pictures;
  return { value: body };
}

async function parseForm(bytes: Uint8Array, contentType: string): Promise<FormData> {
  await endOfTurn();
  try {
    return await new Response(bytes as Uint8Array<ArrayBuffer>, {
      headers: { 'content-type': contentType },
    }).formData();
  } catch (cause) {
    throw new ServeError('invalid_value', 'The body is not the multipart form that its Content-Type says', { cause });
  }
}

function fieldValue(name: string, text: string): unknown {
  if (INTEGERS.has(name)) {
    if (!/^-?\d{1,15}$/.test(text)) throw invalid(`\`${name}\` must be an integer, got \`${text.slice(0, 64)}\``, name);
    return Number(text);
  }
  if (!FLAGS.has(name)) return text;
  if (text !== 'true' && text !== 'false') {
    throw invalid(`\`${name}\` must be \`true\` or \`false\`, got \`${text.slice(0, 64)}\``, name);
  }
  return text === 'true';
}

/** Returns a file of the form as a `data:` URL. */
async function pictureUrl(file: File, name: string): Promise<string> {
  if (file.size > LIMITS.picture_bytes.max) {
    const limitMb = LIMITS.picture_bytes.max / 1024 / 1024;
    const message = `\`${name}\` has ${file.size} bytes, more than the ${limitMb} MB of a picture`;
    throw overLimit('picture_bytes', message, { param: name });
  }
  const bytes = Buffer.from(await file.arrayBuffer());
  const type = pictureType(bytes) ?? (file.type.startsWith('image/') ? file.type : undefined);
  if (type === undefined) throw invalid(`\`${name}\` must be a picture: PNG, JPEG or WebP`, name);
  let url = `data:${type};base64,`;
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    url += bytes.toString('base64', at, at + SLICE_BYTES);
    if (at + SLICE_BYTES < bytes.length) await endOfTurn();
  }
  return url;
}

/** Returns the type of a picture by its first bytes, because clients often send no type or a wrong one. */
function pictureType(bytes: Buffer): string | undefined {
  if (bytes.subarray(0, 4).equals(PNG)) return 'image/png';
  if (bytes.subarray(0, 3).equals(JPEG)) return 'image/jpeg';
  const isWebp = bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP';
  return isWebp ? 'image/webp' : undefined;
}

function invalid(message: string, param: string): ServeError {
  return new ServeError('invalid_value', message, { param });
}
