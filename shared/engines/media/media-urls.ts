import { workerError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';

/** URL of a medium inside a chat body. */
export interface MediaUrl {
  /** JSON path of the URL in the body, such as `messages[0].content[1].image_url.url`. */
  readonly path: string;
  readonly url: string;
}

/** Medium named in a rebuilt body, which its inline content can replace. */
export interface NamedMedium extends MediaUrl {
  readonly replaceWith: (url: string) => void;
}

/** Body whose messages contain only checked fields. */
export interface RebuiltBody {
  readonly body: Body;
  /** Media in the order of the messages. */
  readonly media: readonly NamedMedium[];
  /** Sounds that the messages contain in base64. */
  readonly sounds: readonly { readonly path: string; readonly data: string }[];
}

type Body = Readonly<Record<string, unknown>>;
type Part = Readonly<Record<string, unknown>>;
type MediaType = 'image_url' | 'video_url' | 'audio_url';

/** Returns the URLs of the media in the messages of a chat body, in order. A body of another shape has none. */
export function mediaUrlsOf(body: Body): readonly MediaUrl[] {
  return rebuildMessages(body).media;
}

/**
 * Returns the body with each part of its messages rebuilt only from the fields that were checked. An engine that reads
 * a part in another way (e.g. by another key than its `type`) finds no unchecked URL there.
 *
 * @throws ServeError `invalid_value` naming the part whose type is not text, refusal, image_url, video_url, audio_url
 * or input_audio, or whose fields do not fit its type
 */
export function rebuildMessages(body: Body): RebuiltBody {
  if (!Array.isArray(body.messages)) return { body, media: [], sounds: [] };
  const found: Found = { media: [], sounds: [] };
  const messages = body.messages.map((message: unknown, at) => {
    if (!isRecord(message) || !Array.isArray(message.content)) return message;
    const content = message.content.map((part: unknown, partAt) =>
      rebuildPart(part, `messages[${at}].content[${partAt}]`, found),
    );
    return { ...message, content };
  });
  return { body: { ...body, messages }, ...found };
}

/** Fields in which the body of a picture or a video names its inputs; clients may send other fields. */
const REFERENCES = ['input_reference', 'image', 'mask'] as const;

/**
 * Returns the body of a request for pictures or videos with its inputs, which their inline content can replace.
 * @throws ServeError `invalid_value` for an input that is not a URL
 */
export function rebuildReferences(body: Body): RebuiltBody {
  const media: NamedMedium[] = [];
  const root = withReferences(body, media);
  const extra = isRecord(body.extra_args) ? body.extra_args : undefined;
  const passed = isRecord(extra?.media_passthrough) ? extra.media_passthrough : undefined;
  if (extra === undefined || passed === undefined) return { body: root, media, sounds: [] };
  const rebuilt = { ...extra, media_passthrough: withReferences(passed, media) };
  return { body: { ...root, extra_args: rebuilt }, media, sounds: [] };
}

function withReferences(fields: Body, media: NamedMedium[]): Body {
  const copy: Record<string, unknown> = { ...fields };
  for (const name of REFERENCES) {
    const value = fields[name];
    if (value === undefined || value === null) continue;
    const list: unknown[] = Array.isArray(value) ? [...value] : [value];
    for (const [index, url] of list.entries()) {
      const path = `${name}${Array.isArray(value) ? `[${index}]` : ''}`;
      if (typeof url !== 'string') throw workerError('InvalidArgument', `${name} is not a URL`, { param: path });
      const replaceWith = (inline: string): void => {
        list[index] = inline;
        copy[name] = Array.isArray(value) ? list : inline;
      };
      media.push({ path, url, replaceWith });
    }
    copy[name] = Array.isArray(value) ? list : value;
  }
  return copy;
}

interface Found {
  readonly media: NamedMedium[];
  readonly sounds: { readonly path: string; readonly data: string }[];
}

function rebuildPart(part: unknown, path: string, found: Found): Part {
  if (typeof part === 'string') return { type: 'text', text: part };
  const { type } = isRecord(part) ? part : {};
  if (isRecord(part)) {
    if (type === 'text' && typeof part.text === 'string') return { type, text: part.text };
    if (type === 'refusal' && typeof part.refusal === 'string') return { type, refusal: part.refusal };
    if (type === 'input_audio') return rebuildSound(part.input_audio, `${path}.input_audio`, found);
    if (type === 'image_url' || type === 'video_url' || type === 'audio_url') {
      return rebuildMedium(type, part[type], `${path}.${type}`, found);
    }
  }
  throw workerError('InvalidArgument', `a content part is not one of ${PART_TYPES}`, { param: path });
}

const PART_TYPES = 'text, refusal, image_url, video_url, audio_url, input_audio';

function rebuildMedium(type: MediaType, value: unknown, path: string, { media }: Found): Part {
  const isBare = typeof value === 'string';
  const { url, detail } = isRecord(value) ? value : { url: value };
  if (typeof url !== 'string') throw workerError('InvalidArgument', `${type} has no url`, { param: path });
  const medium: { url: string; detail?: string } = { url };
  if (type === 'image_url' && typeof detail === 'string') medium.detail = detail;
  const replaceWith = (inline: string): void => {
    medium.url = inline;
  };
  media.push({ path: isBare ? path : `${path}.url`, url, replaceWith });
  return { type, [type]: medium };
}

const SOUND_FORMAT = /^[a-z0-9][a-z0-9.+-]{0,31}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

function rebuildSound(value: unknown, path: string, { sounds }: Found): Part {
  const { data, format } = isRecord(value) ? value : {};
  if (typeof data !== 'string' || !BASE64.test(data)) {
    throw workerError('InvalidArgument', 'input_audio.data is not base64', { param: `${path}.data` });
  }
  if (typeof format !== 'string' || !SOUND_FORMAT.test(format)) {
    throw workerError('InvalidArgument', 'input_audio.format is not the name of a format', { param: `${path}.format` });
  }
  sounds.push({ path: `${path}.data`, data });
  return { type: 'input_audio', input_audio: { data, format } };
}
