import { isRecord } from '../../records/index.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { fileText } from './file-parts.ts';

export type Part = Readonly<Record<string, unknown>>;

/** Length from which a text that consists only of base64 counts as binary data. */
const BASE64_CHARS = 512;
const NOT_BASE64 = /[^A-Za-z0-9+/=_-]/;

/** Kinds of media parts in chat bodies. */
const MEDIA: ReadonlySet<unknown> = new Set(['image_url', 'video_url', 'audio_url']);

/** Returns the text of a part of any API; undefined for parts of another kind. */
export function textOfPart(part: unknown): string | undefined {
  if (typeof part === 'string') return part;
  if (!isRecord(part)) return undefined;
  const { type, text, refusal } = part;
  if (type === 'refusal' && typeof refusal === 'string') return refusal;
  if (typeof text === 'string' && type !== 'thinking' && type !== 'reasoning') return text;
  return undefined;
}

/** Returns a picture, video or sound of any API as a part of a chat; undefined for parts of another kind. */
export function mediaPart(part: unknown): Part | undefined {
  if (!isRecord(part)) return undefined;
  const { type } = part;
  if (typeof type === 'string' && MEDIA.has(type)) {
    const named = part[type];
    const url = isRecord(named) ? named.url : named;
    if (typeof url !== 'string') return undefined;
    return isRecord(named) ? part : { type, [type]: { url } };
  }
  if (type === 'input_audio') {
    const { data, format } = isRecord(part.input_audio) ? part.input_audio : {};
    return typeof data === 'string' && typeof format === 'string' ? part : undefined;
  }
  const url = pictureUrl(part);
  return url === undefined ? undefined : { type: 'image_url', image_url: { url, ...detailOf(part) } };
}

function pictureUrl({ type, image_url, source, data, mimeType }: Part): string | undefined {
  if (type === 'input_image' || type === 'computer_screenshot') {
    return typeof image_url === 'string' ? image_url : undefined;
  }
  if (type !== 'image') return undefined;
  if (isRecord(source)) {
    if (source.type === 'url') return typeof source.url === 'string' ? source.url : undefined;
    const { media_type: kind, data: bytes } = source;
    return typeof kind === 'string' && typeof bytes === 'string' ? `data:${kind};base64,${bytes}` : undefined;
  }
  // MCP
  return typeof data === 'string' && typeof mimeType === 'string' ? `data:${mimeType};base64,${data}` : undefined;
}

function detailOf({ detail }: Part): { readonly detail?: string } {
  return typeof detail === 'string' ? { detail } : {};
}

/**
 * Returns a value that no part of a chat can hold as text: its own text if it has one, otherwise its JSON without the
 * data that only its author can read.
 */
export function toldAsText(value: unknown, leftOut: LeftOut): string {
  const text = textOfPart(value);
  if (text !== undefined) return text;
  if (value === undefined || value === null) return '';
  if (!isRecord(value)) return Array.isArray(value) ? jsonOf(value, leftOut) : String(value);
  switch (value.type) {
    case 'tool_reference':
      return typeof value.tool_name === 'string' ? value.tool_name : jsonOf(value, leftOut);
    case 'document':
    case 'file':
    case 'input_file':
      return documentText(value, leftOut);
    case 'search_result':
      return searchResultText(value, leftOut);
    default:
      return jsonOf(value, leftOut);
  }
}

/** Returns the text of an earlier turn's file or document; names it if it cannot be read. */
function documentText(part: Part, leftOut: LeftOut): string {
  const read = fileText(part);
  if (read.kind === 'text') return read.text;
  leftOut.note('history', String(part.type));
  return `[${read.name ?? 'a file'} was left out: ${read.reason}]`;
}

/** Returns a search result with its title and source. */
export function searchResultText({ title, source, content }: Part, leftOut: LeftOut): string {
  const head = [title, source].filter((line): line is string => typeof line === 'string' && line !== '');
  const parts = Array.isArray(content) ? content : [content];
  return [...head, ...parts.map((part) => toldAsText(part, leftOut))].filter((line) => line !== '').join('\n');
}

function jsonOf(value: object, leftOut: LeftOut): string {
  return JSON.stringify(value, (key, member: unknown) => {
    if (key.startsWith('encrypted_') || key === 'signature') return undefined;
    if (typeof member !== 'string' || member.length < BASE64_CHARS || !isBase64(member)) return member;
    leftOut.note('history', key === '' ? 'bytes' : key);
    return `[${member.length} characters of base64]`;
  });
}

function isBase64(text: string): boolean {
  return !NOT_BASE64.test(text.startsWith('data:') ? text.slice(text.indexOf(',') + 1) : text);
}

/** Returns the type of a part, for messages to the client. */
export function kindOfPart(part: unknown): string {
  return isRecord(part) && typeof part.type === 'string' && part.type !== '' ? part.type : 'part';
}
