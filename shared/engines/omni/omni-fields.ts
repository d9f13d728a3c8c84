import { workerError } from '../../errors/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';

/** Part of a form: a text, or a file. */
export type FormPart =
  | { readonly name: string; readonly text: string }
  | { readonly name: string; readonly fileName: string; readonly type: string; readonly bytes: Buffer };

/** Fields of a request for pictures that the server has under the same names. */
const PICTURE_FIELDS: ReadonlySet<string> = new Set(
  'prompt n size response_format output_format output_compression background user'.split(' '),
);
const VIDEO_FIELDS: ReadonlySet<string> = new Set('prompt seconds size user'.split(' '));
/**
 * Parameters of drawing that clients may set. Those that name a file, a repository or code for the server to load are
 * excluded.
 */
const CONTROLS: ReadonlySet<string> = new Set(
  (
    'negative_prompt num_inference_steps guidance_scale guidance_scale_2 true_cfg_scale flow_shift boundary_ratio strength seed ' +
    'layers resolution width height fps num_frames num_outputs_per_prompt aspect_ratio short_edge quality ' +
    'enable_frame_interpolation frame_interpolation_exp frame_interpolation_scale generate_sound sound_duration ' +
    'bot_task sys_type system_prompt use_system_prompt'
  ).split(' '),
);
/**
 * OpenAI's fields that this server cannot follow; they only ask for a certain look, which depends on the model anyway.
 */
const WISHES: ReadonlySet<string> = new Set(
  'model quality style moderation partial_images stream input_reference nvext extra_args'.split(' '),
);
const REFERENCES: ReadonlySet<string> = new Set(['image', 'mask']);

/**
 * Returns the server's fields from a body as frontends pass it on: its own fields, those of `nvext`, and those for the
 * model. Only texts, numbers and booleans are allowed.
 * @throws ServeError `invalid_value` that names a field which is not passed on
 */
export function fieldsOf(
  kind: 'pictures' | 'video',
  body: UnknownRecord,
): Readonly<Record<string, string | number | boolean>> {
  const own = kind === 'pictures' ? PICTURE_FIELDS : VIDEO_FIELDS;
  const passed = asRecord(asRecord(body.extra_args)?.media_passthrough) ?? {};
  const fields: Record<string, string | number | boolean> = {};
  const put = (name: string, value: unknown): void => {
    if (value === null || value === undefined) return;
    if (typeof value === 'object') throw refused(name, 'a string, a number, true or false');
    fields[name] = value as string | number | boolean; // JSON has no other types
  };
  for (const [name, value] of Object.entries(body)) {
    if (own.has(name)) put(name, value);
    else if (!WISHES.has(name) && value !== null && kind === 'pictures') throw refused(name);
  }
  for (const [name, value] of Object.entries(asRecord(body.nvext) ?? {})) if (CONTROLS.has(name)) put(name, value);
  for (const [name, value] of Object.entries(passed)) {
    if (CONTROLS.has(name)) put(name, value);
    else if (!REFERENCES.has(name)) throw refused(name);
  }
  if (fields.size === 'auto') delete fields.size;
  if (fields.response_format === 'url' || (kind === 'video' && body.response_format === 'url')) {
    const says = 'response_format must be b64_json: the server keeps no files';
    throw workerError('InvalidArgument', says, { param: 'response_format' });
  }
  return fields;
}

function refused(name: string, allowed?: string): Error {
  const says = allowed === undefined ? 'is not passed on to vLLM-Omni' : `must be ${allowed}`;
  return workerError('InvalidArgument', `${name} ${says}`, { param: name });
}

/** Returns the pictures that a request starts from, as files, under the server's names. */
export function filesOf(
  body: UnknownRecord,
  names: { readonly picture: string; readonly mask?: string },
): readonly FormPart[] {
  const { image, mask } = asRecord(asRecord(body.extra_args)?.media_passthrough) ?? {};
  const several = Array.isArray(image) ? image : image === undefined ? [] : [image];
  const pictures = several.length > 0 ? several : body.input_reference === undefined ? [] : [body.input_reference];
  const parts = pictures.map((url, at) => fileOf(names.picture, url, `${at}`));
  return names.mask === undefined || mask === undefined ? parts : [...parts, fileOf(names.mask, mask, 'mask')];
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w.+=-]+)*;base64,/i;

/** Returns a picture as a file. The guard in front of the engine has read URLs, so the picture is inline here. */
function fileOf(name: string, url: unknown, fileName: string): FormPart {
  const [head, type = 'application/octet-stream'] = (typeof url === 'string' && DATA_URL.exec(url.slice(0, 256))) || [];
  if (typeof url !== 'string' || head === undefined) {
    throw workerError('InvalidArgument', 'an input picture is not a data: URL in base64', {
      param: 'input_reference',
    });
  }
  return { name, fileName, type, bytes: Buffer.from(url.slice(head.length), 'base64') };
}

/** Encodes the parts as a form, `multipart/form-data`. @param boundary a word that occurs in none of them */
export function formOf(
  parts: readonly FormPart[],
  boundary: string,
): { readonly contentType: string; readonly bytes: Buffer } {
  const chunks: Buffer[] = [];
  for (const part of parts) {
    const file = 'bytes' in part ? `; filename="${part.fileName}"\r\nContent-Type: ${part.type}` : '';
    chunks.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${part.name}"${file}\r\n\r\n`));
    chunks.push('bytes' in part ? part.bytes : Buffer.from(part.text), Buffer.from('\r\n'));
  }
  chunks.push(Buffer.from(`--${boundary}--\r\n`));
  return { contentType: `multipart/form-data; boundary=${boundary}`, bytes: Buffer.concat(chunks) };
}
