import { Markers } from '../../markers.ts';
import { type CallWriter, countedId } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { compactJson, readJsonValue } from '../json-scan.ts';
import { collectUntil, type Parsing, readUntil, skipSpace, type TextSource } from '../scan.ts';

const START = '<|start|>';
const CHANNEL = '<|channel|>';
const MESSAGE = '<|message|>';
const CALL = '<|call|>';
const END = '<|end|>';
const RETURN = '<|return|>';
const PROSE = new Markers([START, CHANNEL, MESSAGE, CALL, END, RETURN]);
const IN_HEADER = new Markers([MESSAGE, START, END, CALL, RETURN]);
const IN_BODY = new Markers([START, CHANNEL, CALL, END, RETURN]);

/**
 * Channels of gpt-oss. A commentary message to `functions.NAME` is a call, shown whole; the
 * text of other messages is content (pair with reasoning parser `gpt_oss` to have analysis split off before).
 */
export const harmony: ToolCallFormat = {
  newId: countedId,
  keepsSpecialTokens: true,
  endTokens: [CALL, RETURN],
  finder: () => PROSE,
  *read(marker, source, calls): Parsing<Region> {
    let next: string | undefined = marker;
    while (next === START || next === CHANNEL) next = yield* readMessage(next, source, calls);
    return 'markup';
  },
};

/** Reads one message from behind the marker it begins with; returns the marker it stopped at. */
function* readMessage(first: string, source: TextSource, calls: CallWriter): Parsing<string | undefined> {
  const { text, marker } = yield* collectUntil(source, IN_HEADER);
  if (marker !== MESSAGE) return marker;
  const header = first + text;
  const recipient = /\bto=([^\s<]+)/.exec(header)?.[1];
  if (recipient === undefined) return yield* readUntil(source, IN_BODY, (piece) => calls.content(piece), true);
  const isCall = recipient.startsWith('functions.') && header.includes(`${CHANNEL}commentary`);
  const name = recipient.split('.')[1] ?? '';
  let body = '';
  const take = (piece: string): void => {
    body += piece;
  };
  yield* skipSpace(source);
  yield* readJsonValue(source, take);
  const stop = yield* readUntil(source, IN_BODY, take);
  const json = compactJson(body);
  if (isCall && name !== '' && json !== undefined) calls.whole(name, json);
  return stop;
}
