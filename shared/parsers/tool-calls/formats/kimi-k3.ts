import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson } from '../json-scan.ts';
import { collectUntil, type Parsing, readUntil, showUntil, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';

const OPEN = '<|open|>';
const CLOSE = '<|close|>';
const SEPARATOR = '<|sep|>';
const MESSAGE_END = '<|end_of_msg|>';
const PROSE = new Markers([OPEN, CLOSE, MESSAGE_END]);
const TAG_END = new Markers([SEPARATOR]);
const ARGUMENT_CLOSED = new Markers([`${CLOSE}argument${SEPARATOR}`]);
const JSON_CLOSED = new Markers([`${CLOSE}json${SEPARATOR}`]);

/** Tag: `open call tool="f"` has the kind `open` and the text `call tool="f"`. */
interface Tag {
  readonly kind: string;
  readonly text: string;
}

/** Names of channels and of the elements in them. */
const TAG_NAME = /^(?:message|response|tools|call|think|argument|json)\b/;
/** Length limit of a tag: it has names and attributes, and a longer text is not one. */
const TAG_UNITS_MAX = 1024;

/**
 * Format XTML. Tags are left out, and text in any channel is content; the `response` has nearly all of it. Ids count
 * from 0, while the text counts from 1.
 */
export const kimiK3: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  endTokens: [MESSAGE_END],
  callTokens: [OPEN, CLOSE],
  finder: () => PROSE,
  *read(marker, source, calls) {
    source.record(marker);
    let tag = yield* readTagText(marker, source);
    while (tag !== undefined) {
      if (tag.kind === OPEN && tag.text.startsWith('call')) tag = yield* readCall(tag.text, source, calls);
      else {
        if (tag.kind === MESSAGE_END || TAG_NAME.test(tag.text)) source.forget();
        else calls.content(source.takeRecord());
        tag = yield* readShown(tag.text === 'response' && tag.kind === OPEN, source, calls);
      }
    }
    calls.content(source.takeRecord());
    return 'markup';
  },
};

/** Shows text up to the next tag: all of the response, and text between tags unless it is only white space. */
function* readShown(isResponse: boolean, source: TextSource, calls: CallWriter): Parsing<Tag | undefined> {
  const marker = yield* isResponse
    ? readUntil(source, PROSE, (piece) => calls.content(piece), true)
    : showUntil(source, PROSE, calls);
  if (marker === undefined) return undefined;
  source.record(marker);
  return yield* readTagText(marker, source);
}

/** Reads a tag inside a call; text that is not a call stays in the record. */
function* readTag(source: TextSource): Parsing<Tag | undefined> {
  const marker = yield* readUntil(source, PROSE);
  if (marker === undefined) return undefined;
  return yield* readTagText(marker, source);
}

function* readTagText(marker: string, source: TextSource): Parsing<Tag | undefined> {
  if (marker === MESSAGE_END) return { kind: marker, text: '' };
  const { text, marker: end } = yield* collectUntil(source, TAG_END);
  return end === undefined || text.length > TAG_UNITS_MAX ? undefined : { kind: marker, text: text.trim() };
}

/** Reads the body of a call and returns the tag after it. A call that another tag cuts off is closed there. */
function* readCall(head: string, source: TextSource, calls: CallWriter): Parsing<Tag | undefined> {
  const name = readAttribute(head, 'tool') ?? '';
  const id = callId(name, readAttribute(head, 'index'));
  const writer = name === '' ? undefined : new ArgumentsWriter(calls, name, id);
  let tag = yield* readTag(source);
  while (tag?.kind === OPEN && /^(argument|json)\b/.test(tag.text)) {
    if (tag.text.startsWith('json')) {
      if (!(yield* readRawArguments(name, id, source, calls))) return undefined;
      tag = yield* readTag(source);
      return yield* readBehindCall(tag, source, calls);
    }
    if (!(yield* readArgument(tag.text, source, writer))) return undefined;
    tag = yield* readTag(source);
  }
  if (tag === undefined) return undefined;
  writer?.close();
  return yield* readBehindCall(tag, source, calls);
}

/** Reads the text after the closing tag of a call, or returns the tag that stands in its place. */
function* readBehindCall(tag: Tag | undefined, source: TextSource, calls: CallWriter): Parsing<Tag | undefined> {
  calls.content(source.takeRecord());
  return tag?.kind === CLOSE && tag.text === 'call' ? yield* readShown(false, source, calls) : tag;
}

/** Reads an argument. Returns false when the text ends inside it. */
function* readArgument(head: string, source: TextSource, writer: ArgumentsWriter | undefined): Parsing<boolean> {
  const key = readAttribute(head, 'key');
  if (writer === undefined || key === undefined) return (yield* readUntil(source, ARGUMENT_CLOSED)) !== undefined;
  if ((readAttribute(head, 'type') ?? 'string') === 'string') {
    const member = new StringMember(writer, key, {});
    if ((yield* readUntil(source, ARGUMENT_CLOSED, (piece) => member.push(piece))) === undefined) return false;
    member.end();
    return true;
  }
  const { text, marker } = yield* collectUntil(source, ARGUMENT_CLOSED);
  if (marker !== undefined) writer.member(key, compactJson(text) ?? JSON.stringify(text));
  return marker !== undefined;
}

/** Reads arguments written as one text and passes them on unchanged; drops them if the call has no name. */
function* readRawArguments(name: string, id: string, source: TextSource, calls: CallWriter): Parsing<boolean> {
  if (name === '') return (yield* readUntil(source, JSON_CLOSED)) !== undefined;
  const first = yield* skipSpace(source);
  if (first !== '{') {
    const { text, marker } = yield* collectUntil(source, JSON_CLOSED);
    if (marker !== undefined) calls.whole(name, argumentsOf(text), id);
    return marker !== undefined;
  }
  calls.start(name, id);
  return (yield* readUntil(source, JSON_CLOSED, (piece) => calls.arguments(piece))) !== undefined;
}

function callId(name: string, index: string | undefined): string {
  if (index === undefined) return name;
  return /^\d{1,15}$/.test(index) ? `${name}:${Math.max(0, Number(index) - 1)}` : `${name}:${index}`;
}

function readAttribute(head: string, name: string): string | undefined {
  const raw = new RegExp(`\\s${name}="([^"]*)"`).exec(head)?.[1];
  return raw?.replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}
