import { Markers } from '../../markers.ts';
import type { CallWriter, NewCallId } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { readJsonValue, startsJson } from '../json-scan.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, readUntil, skipSpace, type TextSource } from '../scan.ts';

const SECTIONS = ['<|tool_calls_section_begin|>', '<|tool_call_section_begin|>'];
const SECTION_ENDS = ['<|tool_calls_section_end|>', '<|tool_call_section_end|>'];
const CALL = '<|tool_call_begin|>';
const CALL_END = '<|tool_call_end|>';
const ARGUMENTS = '<|tool_call_argument_begin|>';
const PROSE = new Markers([...SECTIONS, ...SECTION_ENDS, CALL, CALL_END, ARGUMENTS]);
const IN_SECTION = new Markers([CALL, ...SECTION_ENDS]);
const IN_CALL = new Markers([ARGUMENTS, CALL_END, CALL, ...SECTION_ENDS]);
const CALL_CLOSED = new Markers([CALL_END, CALL, ...SECTION_ENDS]);
const ID = /^(?:functions\.)?([\w.-]+):\d+$/;

/** The form that the model itself writes, for calls that came as plain JSON. */
const kimiId: NewCallId = (_random, index, name) => `functions.${name}:${index}`;

/** Kimi K2 and K2.5: the model names the ids, and its history must show them again. */
export const kimiK2: ToolCallFormat = {
  newId: kimiId,
  keepsSpecialTokens: true,
  finder: () => PROSE,
  *read(marker, source, calls) {
    const isBare = marker === CALL;
    if (!isBare && !SECTIONS.includes(marker)) return 'markup';
    let stop = isBare ? CALL : yield* readUntil(source, IN_SECTION);
    while (stop === CALL) {
      stop = yield* readCall(source, calls);
      if (stop !== CALL_END) continue;
      stop = isBare
        ? yield* readOneOfBehindSpace(source, [CALL, ...SECTION_ENDS])
        : yield* readUntil(source, IN_SECTION);
    }
    return 'markup';
  },
};

/** Reads from behind the call's begin marker and returns the marker it stopped at. */
function* readCall(source: TextSource, calls: CallWriter): Parsing<string | undefined> {
  const { text, marker } = yield* collectUntil(source, IN_CALL);
  if (marker !== ARGUMENTS) return marker;
  const id = text.trim();
  const name = ID.exec(id)?.[1];
  if (name === undefined) return yield* readUntil(source, CALL_CLOSED);
  const take = (piece: string): void => calls.arguments(piece);
  const first = yield* skipSpace(source);
  if (first === '{' || first === '[') {
    calls.start(name, id);
    const isWhole = yield* readJsonValue(source, take, true);
    return yield* readUntil(source, CALL_CLOSED, isWhole ? undefined : take);
  }
  // Not an object: passed on as it is, once the end marker shows that it is whole.
  const raw = yield* collectUntil(source, CALL_CLOSED);
  if (raw.marker === CALL_END) calls.whole(name, startsJson(first) ? raw.text.trim() : raw.text, id);
  return raw.marker;
}
