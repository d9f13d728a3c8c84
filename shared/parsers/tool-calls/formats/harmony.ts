import { Markers } from '../../markers.ts';
import { countedId } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { compactJson, readJsonValue } from '../json-scan.ts';
import { collectUntil, type Parsing, readOneOf, readUntil, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';

const START = '<|start|>';
const CHANNEL = '<|channel|>';
const MESSAGE = '<|message|>';
const CALL = '<|call|>';
const END = '<|end|>';
const RETURN = '<|return|>';
const PROSE = new Markers([START, CHANNEL, MESSAGE, CALL, END, RETURN]);
const IN_HEADER = new Markers([MESSAGE, START, END, CALL, RETURN]);
const IN_BODY = new Markers([START, CHANNEL, CALL, END, RETURN]);

/** Beginning of a recipient. If a prompt ends in `<|start|>assistant`, a text may begin with the recipient. */
export const RECIPIENT_START = 'to=';
export const RECIPIENT = /(?:^|\s|\|>)to=([^\s<]+)/;
const FUNCTIONS = 'functions.';
/** Length limit of a header: headers are names and markers, and a longer text is not one. */
export const HEADER_UNITS_MAX = 1024;

/**
 * Format of gpt-oss, with channels. A message to `functions.NAME` is a call in any channel, shown when it is complete.
 * The text of other messages is content, even of those to the model's built-in tools. The reasoning parser `gpt_oss`,
 * which must run before, splits analysis off.
 */
export const harmony: ToolCallFormat = {
  newId: countedId,
  keepsSpecialTokens: true,
  endTokens: [CALL, RETURN],
  finder: () => PROSE,
  *readOpening(source, calls): Parsing<Region> {
    if (!(yield* readRecipientStart(source, calls))) return 'text';
    return yield* readMessages(RECIPIENT_START, source, calls);
  },
  *read(marker, source, calls): Parsing<Region> {
    if (marker !== START && marker !== CHANNEL) return 'markup';
    source.record(marker);
    return yield* readMessages(marker, source, calls);
  },
};

/**
 * Reads the beginning of a recipient, which is recorded, at the beginning of a text. If it is not there, shows what was
 * read, and returns false.
 */
export function* readRecipientStart(source: TextSource, calls: CallWriter): Parsing<boolean> {
  source.record();
  yield* skipSpace(source);
  if ((yield* readOneOf(source, [RECIPIENT_START])) !== undefined) return true;
  calls.content(source.takeRecord());
  return false;
}

/** Reads messages from after the beginning of the first one, which is recorded. */
function* readMessages(first: string, source: TextSource, calls: CallWriter): Parsing<Region> {
  let begin: string | undefined = first;
  while (begin !== undefined) {
    const { text, marker } = yield* collectUntil(source, IN_HEADER);
    const header: string = begin + text;
    if (marker !== MESSAGE || header.length > HEADER_UNITS_MAX) {
      // A header without a message is markup, unless it has other words than a header has. A text that only begins as
      // one, with a recipient, may be prose.
      if (wordsBeside(header) !== '' || begin === RECIPIENT_START) calls.content(source.takeRecord());
      else source.forget();
      begin = marker === START ? marker : undefined;
    } else begin = yield* readBody(header, source, calls);
    if (begin !== undefined) source.record(begin);
  }
  return 'markup';
}

const HEADER_WORD =
  /<\|\w+\|>|\b(?:assistant|system|user|developer|tool|analysis|commentary|final|json|code)\b|to=\S*/g;

/** Returns the words of a header that are not a role, channel, recipient or type of content. */
export function wordsBeside(header: string): string {
  return header.replace(HEADER_WORD, ' ').trim();
}

/** Reads the body of a message; returns the marker that the next message begins with. */
function* readBody(header: string, source: TextSource, calls: CallWriter): Parsing<string | undefined> {
  const recipient = RECIPIENT.exec(header)?.[1];
  const name = recipient?.startsWith(FUNCTIONS) ? recipient.slice(FUNCTIONS.length) : '';
  let stop: string | undefined;
  const words = wordsBeside(header);
  if (name === '') {
    if (words === '') source.forget();
    else calls.content(source.takeRecord());
    stop = yield* readUntil(source, IN_BODY, (piece) => calls.content(piece), true);
  } else {
    let body = '';
    const take = (piece: string): void => {
      body += piece;
    };
    yield* skipSpace(source);
    yield* readJsonValue(source, take);
    stop = yield* readUntil(source, IN_BODY, take);
    const json = stop === undefined && body.trim() === '' ? undefined : compactJson(argumentsOf(body));
    // Arguments that are not JSON are passed on unchanged once the message is closed; before that, they are cut off.
    if (json === undefined && stop === undefined) calls.content(source.takeRecord());
    else {
      calls.content(words);
      calls.whole(name, json ?? body.trim());
    }
  }
  return stop === START || stop === CHANNEL ? stop : undefined;
}
