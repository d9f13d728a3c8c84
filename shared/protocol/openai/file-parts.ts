import { isUtf8 } from 'node:buffer';
import { isRecord } from '../../records/index.ts';

/** Result of reading a file: its text, or the reason why there is none. */
export type FileText =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'unread';
      readonly name: string | undefined;
      readonly reason: string;
      /** Field of the part that the reason is about. */
      readonly field: string;
    };

type Part = Readonly<Record<string, unknown>>;

interface FileSource {
  /** Name that is shown above the text. */
  readonly name: string | undefined;
  readonly mediaType: string | undefined;
  readonly base64: string | undefined;
  readonly text: string | undefined;
  /** Reason if neither is present. */
  readonly missing: { readonly reason: string; readonly field: string };
}

/** Media types that are read as text, besides `text/*`. */
const TEXT_TYPES =
  /^(?:text\/[\w.+-]+|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|typescript|x-sh|sql|x-ndjson|jsonl|csv))$/i;
const NOT_BASE64 = /[^A-Za-z0-9+/=_\s-]/;
const DATA_URL = /^data:([^;,]*)((?:;[^;,]*)*),/i;

/**
 * Returns the text of a chat's `file` part, an `input_file` of Responses or a `document` of Messages. The content must
 * be inline, as text or in base64; nothing is fetched, and formats other than text (PDF, office documents) are not
 * read.
 */
export function fileText(part: Part): FileText {
  const source = sourceOf(part);
  const unread = (reason: string, field: string): FileText => ({ kind: 'unread', name: source.name, reason, field });
  if (source.text !== undefined) return { kind: 'text', text: withHead(part, source.name, source.text) };
  if (source.base64 === undefined) return unread(source.missing.reason, source.missing.field);
  const { mediaType } = source;
  const field = source.missing.field;
  if (mediaType !== undefined && mediaType !== '' && !TEXT_TYPES.test(mediaType)) {
    if (mediaType !== 'application/octet-stream')
      return unread(`files of the type ${mediaType.slice(0, 100)} are not read, text is`, field);
  }
  if (NOT_BASE64.test(source.base64)) return unread('it is not base64', field);
  const bytes = Buffer.from(source.base64, 'base64');
  if (bytes.subarray(0, 5).toString('latin1') === '%PDF-') {
    return unread('files of the type application/pdf are not read, text is', field);
  }
  if (!isUtf8(bytes) || bytes.includes(0)) return unread('it holds no UTF-8 text', field);
  return { kind: 'text', text: withHead(part, source.name, bytes.toString()) };
}

function sourceOf(part: Part): FileSource {
  if (part.type === 'document') return documentSource(part);
  const isChat = part.type === 'file';
  const file = isChat ? (isRecord(part.file) ? part.file : {}) : part;
  const inside = isChat ? 'file.' : '';
  const name = textOf(file.filename);
  const data = textOf(file.file_data);
  if (data !== undefined)
    return { name, ...dataUrl(data), text: undefined, missing: { reason: '', field: `${inside}file_data` } };
  const field =
    textOf(file.file_id) !== undefined ? 'file_id' : textOf(file.file_url) !== undefined ? 'file_url' : 'file_data';
  const reason =
    field === 'file_data'
      ? 'it has no file_data'
      : `files are not kept or fetched here: send the content as file_data, not by ${field}`;
  return {
    name,
    mediaType: undefined,
    base64: undefined,
    text: undefined,
    missing: { reason, field: `${inside}${field}` },
  };
}

/** Reads a document of Anthropic's API: its text, its bytes, or blocks of text. */
function documentSource(part: Part): FileSource {
  const name = textOf(part.title);
  const source = isRecord(part.source) ? part.source : {};
  const none = { name, mediaType: undefined, base64: undefined, text: undefined };
  switch (source.type) {
    case 'text':
      return { ...none, text: textOf(source.data) ?? '', missing: { reason: '', field: 'source.data' } };
    case 'base64':
      return {
        ...none,
        mediaType: textOf(source.media_type),
        base64: textOf(source.data),
        missing: { reason: 'it has no data', field: 'source.data' },
      };
    case 'content':
      return { ...none, text: blocksText(source.content), missing: { reason: '', field: 'source.content' } };
    default: {
      const type = textOf(source.type) ?? 'none';
      const reason = `documents are not kept or fetched here: send a source of the type text, base64 or content, not ${type.slice(0, 40)}`;
      return { ...none, missing: { reason, field: 'source.type' } };
    }
  }
}

function blocksText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((block) => (isRecord(block) ? (textOf(block.text) ?? '') : '')).join('\n');
}

function dataUrl(data: string): Pick<FileSource, 'mediaType' | 'base64'> {
  const found = DATA_URL.exec(data);
  if (found === null) return { mediaType: undefined, base64: data };
  const [head, mediaType, parameters = ''] = found;
  const body = data.slice(head.length);
  const isBase64 = parameters.toLowerCase().split(';').includes('base64');
  return { mediaType, base64: isBase64 ? body : Buffer.from(percentDecoded(body)).toString('base64') };
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray percent sign stands for itself
  }
}

/** Returns the text after its name and the client's description, so that the model can tell where it begins. */
function withHead(part: Part, name: string | undefined, text: string): string {
  const context = part.type === 'document' ? textOf(part.context) : undefined;
  const head = [name, context].filter((line) => line !== undefined && line !== '');
  return head.length === 0 ? text : `${head.join('\n')}\n\n${text}`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
