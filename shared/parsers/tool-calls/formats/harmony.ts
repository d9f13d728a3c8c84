import { Markers } from '../../markers.ts';
import { type CallWriter, countedId } from '../call-writer.ts';
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

/** Where a prompt ends in `<|start|>assistant`, a text may begin with the recipient. */
const RECIPIENT_START = 'to=';
const RECIPIENT = /(?:^|\s|\|>)to=([^\s<]+)/;
const FUNCTIONS = 'functions.';
/** Headers are names and markers; what is longer is none. */
const HEADER_UNITS_MAX = 1024;

/**
 * Channels of gpt-oss. A message to `functions.NAME` is a call whatever its channel, shown whole; the text of other messages, those to
 * tools that the model brings along with them, is content (pair with reasoning parser `gpt_oss` to have analysis split off before).
 */
export const harmony: ToolCallFormat = {
  newId: countedId,
  keepsSpecialTokens: true,
  endTokens: [CALL, RETURN],
  finder: () => PROSE,
  *readOpening(source, calls): Parsing<Region> {
    source.record();
    yield* skipSpace(source);
    if ((yield* readOneOf(source, [RECIPIENT_START])) === undefined) {
      calls.content(source.takeRecord());
      return 'text';
    }
    return yield* readMessages(RECIPIENT_START, source, calls);
  },
  *read(marker, source, calls): Parsing<Region> {
    if (marker !== START && marker !== CHANNEL) return 'markup';
    source.record(marker);
    return yield* readMessages(marker, source, calls);
  },
};

/** Reads messages from behind what the first begins with, which is recorded. */
function* readMessages(first: string, source: TextSource, calls: CallWriter): Parsing<Region> {
  let begin: string | undefined = first;
  while (begin !== undefined) {
    const { text, marker } = yield* collectUntil(source, IN_HEADER);
    const header: string = begin + text;
    if (marker !== MESSAGE || header.length > HEADER_UNITS_MAX) {
      // A header without a message is markup, if it says nothing that a header does not.
      if (wordsBeside(header) !== '') calls.content(source.takeRecord());
      else source.forget();
      begin = marker === START ? marker : undefined;
    } else begin = yield* readBody(header, source, calls);
    if (begin !== undefined) source.record(begin);
  }
  return 'markup';
}

const HEADER_WORD =
  /<\|\w+\|>|\b(?:assistant|system|user|developer|tool|analysis|commentary|final|json|code)\b|to=\S*/g;

/** What of a header is no role, channel, recipient or type of content. */
function wordsBeside(header: string): string {
  return header.replace(HEADER_WORD, ' ').trim();
}

/** Reads the body of a message; returns the marker that the next one begins with. */
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
    // What is no JSON is passed on as it is once the message is closed; before, it is cut off.
    if (json === undefined && stop === undefined) calls.content(source.takeRecord());
    else {
      calls.content(words);
      calls.whole(name, json ?? body.trim());
    }
  }
  return stop === START || stop === CHANNEL ? stop : undefined;
}
