import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { type CallWriter, hexId } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson } from '../json-scan.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, readUntil, type TextSource } from '../scan.ts';

const TAG = '<｜DSML｜';
const TAG_END = '</｜DSML｜';
const INVOKE = `${TAG}invoke name=`;
const INVOKE_END = `${TAG_END}invoke>`;
const PARAMETER = `${TAG}parameter name=`;
const PARAMETER_END = `${TAG_END}parameter>`;
const CLOSE = new Markers(['>']);
const IN_VALUE = new Markers([PARAMETER_END, INVOKE_END]);

/** DeepSeek V3.2 and V4: invokes with attributes; string parameters stream. */
function dsml(block: string): ToolCallFormat {
  const start = `${TAG}${block}>`;
  const end = `${TAG_END}${block}>`;
  const inBlock = new Markers([INVOKE, end]);
  const inInvoke = new Markers([PARAMETER, INVOKE_END, end]);
  const prose = new Markers([start, INVOKE, end, ...ORPHANS]);
  const starts = new Markers([start, INVOKE]);
  return {
    newId: hexId,
    keepsSpecialTokens: true,
    paragraphMarker: start,
    finder: () => prose,
    *read(marker, source, calls) {
      let opener: string | undefined = marker;
      if (marker === end) return 'markup';
      if (marker !== start && marker !== INVOKE) opener = yield* readUntil(source, starts); // the rest belongs to a torn tag
      let stop = opener === start ? yield* readUntil(source, inBlock) : opener;
      while (stop === INVOKE) {
        stop = yield* readInvoke(source, calls, inInvoke);
        if (stop !== INVOKE_END) break;
        const isBare = opener === INVOKE;
        stop = isBare ? yield* readOneOfBehindSpace(source, [INVOKE, end]) : yield* readUntil(source, inBlock);
      }
      return 'markup';
    },
  };
}

/** Tags that mean nothing on their own. */
const ORPHANS = [PARAMETER, INVOKE_END, PARAMETER_END];

export const deepseekV32: ToolCallFormat = dsml('function_calls');
export const deepseekV4: ToolCallFormat = dsml('tool_calls');

/** Reads from behind `invoke name=` and returns the closing tag it stopped at. */
function* readInvoke(source: TextSource, calls: CallWriter, inInvoke: Markers): Parsing<string | undefined> {
  const name = readAttribute(`name=${(yield* collectUntil(source, CLOSE)).text}`, 'name');
  const writer = new ArgumentsWriter(calls, name ?? '');
  let stop = yield* readUntil(source, inInvoke);
  while (stop === PARAMETER) {
    const { text } = yield* collectUntil(source, CLOSE);
    stop = yield* readParameter(`name=${text}`, source, writer, name !== undefined);
    if (stop === PARAMETER_END) stop = yield* readUntil(source, inInvoke);
  }
  if (stop !== undefined && name !== undefined) writer.close();
  return stop;
}

function* readParameter(
  attributes: string,
  source: TextSource,
  writer: ArgumentsWriter,
  isCall: boolean,
): Parsing<string | undefined> {
  const key = readAttribute(attributes, 'name');
  if (key === undefined || !isCall) return yield* readUntil(source, IN_VALUE);
  if (readAttribute(attributes, 'string') === 'true') {
    const member = new StringMember(writer, key, { trims: true });
    const stop = yield* readUntil(source, IN_VALUE, (piece) => member.push(piece));
    if (stop !== undefined) member.end();
    return stop;
  }
  const { text, marker } = yield* collectUntil(source, IN_VALUE);
  const value = text.trim();
  if (marker !== undefined) writer.member(key, compactJson(value) ?? JSON.stringify(value));
  return marker;
}

function readAttribute(attributes: string, name: string): string | undefined {
  const value = new RegExp(`(?:^|\\s)${name}\\s*=\\s*"([^"]*)"`).exec(attributes)?.[1];
  return value === '' ? undefined : value;
}
