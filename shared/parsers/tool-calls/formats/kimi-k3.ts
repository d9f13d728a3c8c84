import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson } from '../json-scan.ts';
import { collectUntil, ignoreRest, type Parsing, readUntil, type TextSource } from '../scan.ts';

const OPEN = '<|open|>';
const CLOSE = '<|close|>';
const SEPARATOR = '<|sep|>';
const MESSAGE_END = '<|end_of_msg|>';
const PROSE = new Markers([OPEN, CLOSE, MESSAGE_END]);
const TAG_END = new Markers([SEPARATOR]);
const ARGUMENT_CLOSED = new Markers([`${CLOSE}argument${SEPARATOR}`]);
const JSON_CLOSED = new Markers([`${CLOSE}json${SEPARATOR}`]);

/** A tag: `open call tool="f"` is kind `open`, text `call tool="f"`. */
interface Tag {
  readonly kind: string;
  readonly text: string;
}

/**
 * XTML. From the first tag on, only the body of the `response` channel is content. Ids count
 * from 0 where the text counts from 1.
 */
export const kimiK3: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  endTokens: [MESSAGE_END],
  finder: () => PROSE,
  *read(marker, source, calls) {
    let tag = yield* readTagText(marker, source);
    let isContent = false;
    while (tag !== undefined) {
      if (tag.kind === MESSAGE_END || (tag.kind === CLOSE && tag.text === 'message')) break;
      if (tag.kind === OPEN && tag.text.startsWith('call')) {
        tag = yield* readCall(tag.text, source, calls);
        continue;
      }
      isContent = tag.text === 'response' ? tag.kind === OPEN : isContent && tag.text !== 'tools';
      tag = yield* readTag(source, isContent ? (piece) => calls.content(piece) : undefined);
    }
    yield* ignoreRest(source);
    return 'markup';
  },
};

function* readTag(source: TextSource, take?: (piece: string) => void): Parsing<Tag | undefined> {
  const marker = yield* readUntil(source, PROSE, take, true);
  return marker === undefined ? undefined : yield* readTagText(marker, source);
}

function* readTagText(marker: string, source: TextSource): Parsing<Tag | undefined> {
  if (marker === MESSAGE_END) return { kind: marker, text: '' };
  const { text, marker: end } = yield* collectUntil(source, TAG_END);
  return end === undefined ? undefined : { kind: marker, text: text.trim() };
}

/** Reads the body of a call and returns the tag behind it. A call that another tag cuts off is closed there. */
function* readCall(head: string, source: TextSource, calls: CallWriter): Parsing<Tag | undefined> {
  const name = readAttribute(head, 'tool') ?? '';
  const id = callId(name, readAttribute(head, 'index'));
  const writer = name === '' ? undefined : new ArgumentsWriter(calls, name, id);
  let tag = yield* readTag(source);
  while (tag?.kind === OPEN && /^(argument|json)\b/.test(tag.text)) {
    if (tag.text.startsWith('json')) {
      if (!(yield* readRawArguments(name, id, source, calls))) return undefined;
      tag = yield* readTag(source);
      return tag?.kind === CLOSE && tag.text === 'call' ? yield* readTag(source) : tag;
    }
    if (!(yield* readArgument(tag.text, source, writer))) return undefined;
    tag = yield* readTag(source);
  }
  if (tag === undefined) return undefined;
  writer?.close();
  return tag.kind === CLOSE && tag.text === 'call' ? yield* readTag(source) : tag;
}

/** False when the text ends inside. */
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

/** Arguments as one text, passed on as they are; of a call without a name nothing is. */
function* readRawArguments(name: string, id: string, source: TextSource, calls: CallWriter): Parsing<boolean> {
  let isCommitted = false;
  const stop = yield* readUntil(source, JSON_CLOSED, (piece) => {
    if (name === '') return;
    if (!isCommitted) calls.start(name, id);
    isCommitted = true;
    calls.arguments(piece);
  });
  if (stop !== undefined && name !== '' && !isCommitted) calls.whole(name, '{}', id);
  return stop !== undefined;
}

function callId(name: string, index: string | undefined): string {
  if (index === undefined) return name;
  return /^\d{1,15}$/.test(index) ? `${name}:${Math.max(0, Number(index) - 1)}` : `${name}:${index}`;
}

function readAttribute(head: string, name: string): string | undefined {
  const raw = new RegExp(`\\s${name}="([^"]*)"`).exec(head)?.[1];
  return raw?.replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}
