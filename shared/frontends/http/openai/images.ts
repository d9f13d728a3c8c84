import { endOfTurn } from '../../../concurrency/index.ts';
import { LIMITS, overLimit, ServeError } from '../../../errors/index.ts';
import { decodeImages, type JsonBody, parseImagesBody } from '../../../protocol/index.ts';
import { decodeContext, generate, requireServed } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { Serve } from '../route.ts';
import { readJson, serveInference, withBody } from '../serve-inference.ts';
import { imagesBody, MediaObject } from './media.ts';

/** Bytes that are made into base64 in one turn of the event loop; a multiple of three, so that the pieces fit together. */
const SLICE_BYTES = 3 * 256 * 1024;

/** Fields that are numbers or flags in JSON; a form has only texts. */
const INTEGERS: ReadonlySet<string> = new Set(['n', 'output_compression', 'partial_images']);

const FLAGS: ReadonlySet<string> = new Set(['stream']);

const PICTURES: ReadonlySet<string> = new Set(['image', 'image[]']);

const PNG = Buffer.of(0x89, 0x50, 0x4e, 0x47);

const JPEG = Buffer.of(0xff, 0xd8, 0xff);

/** `POST /v1/images/generations`. */
export const serveImages = serveRoute('generations');

/** `POST /v1/images/edits`: the same, starting from a picture, as JSON or as the form that OpenAI's clients send. */
export const serveImageEdits = serveRoute('edits');

function serveRoute(route: 'generations' | 'edits'): Serve {
  return serveInference({
    endpoint: 'images',
    isOffWithoutModel: true,
    read: (exchange, deps) =>
      route === 'edits' && isForm(exchange) ? readImageForm(exchange, deps) : readJson(exchange, deps),
    parse: parseImagesBody,
    isStream: () => false,
    start: (inference, body, { meter, primaryName }) => {
      const request = decodeImages(body, route, decodeContext(inference));
      inference.identify(request);
      requireServed(inference.deps, body.model, 'images');
      const names = { id: request.id, created: inference.createdSecs, model: primaryName };
      const sink = new MediaObject(inference, (parts) => imagesBody(parts, names));
      generate(inference, request, sink, { meter, isWritten: false });
    },
  });
}

function isForm(exchange: HttpExchange): boolean {
  return /^\s*multipart\/form-data\s*(?:;|$)/i.test(exchange.header('content-type') ?? '');
}

/**
 * The form of an edit (`images.edit` of OpenAI's clients) as the JSON body that says the same. Files become `data:` URLs: the
 * first picture `input_reference`, all of them `image` where there are several, and `mask`.
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
  return { value: body, isRepaired: false, fractionalKeys: [] };
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

/** A file of the form as a `data:` URL. */
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

/** By its first bytes: clients often send no type, or a wrong one. */
function pictureType(bytes: Buffer): string | undefined {
  if (bytes.subarray(0, 4).equals(PNG)) return 'image/png';
  if (bytes.subarray(0, 3).equals(JPEG)) return 'image/jpeg';
  const isWebp = bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP';
  return isWebp ? 'image/webp' : undefined;
}

function invalid(message: string, param: string): ServeError {
  return new ServeError('invalid_value', message, { param });
}
